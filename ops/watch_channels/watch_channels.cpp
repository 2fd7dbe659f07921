#include "ops/watch_channels/watch_channels.h"

#include "engine/node_grads.h"

namespace foldgrad {
namespace {

struct WatchNode {
  Tensor y, offset;
  std::shared_ptr<ChannelRecord> record;
  Communicator* communicator;

  const char* name() const { return "watch_channels"; }
  // Differentiates watch_channels: passes dy on and records its sums.
  void backward(NodeGrads& grads) {
    record->gradient_sum = channel_gradient_sums(grads.dy(), y, offset, communicator).dy_x;
    grads.pass_dy(0);
  }
  void describe(Description&) const {}
};

}  // namespace

Var watch_channels(const Var& y, const Tensor& offset, std::shared_ptr<ChannelRecord> record,
                   Communicator* communicator) {
  check_floating("watch_channels", "y", y.value(), 1);
  check_operand("watch_channels", "offset", offset, {y.shape()[-1]}, statistics_dtype(y.value()), y.value(), "y");
  return y.tape().record(y.value(), {y}, WatchNode{y.value(), offset, std::move(record), communicator});
}

}  // namespace foldgrad
