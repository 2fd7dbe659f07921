#include "ops/reshape/reshape.h"

namespace foldgrad {
namespace {

struct ReshapeNode {
  const char* name() const { return "reshape"; }
  void backward(NodeGrads& grads) { grads.pass_dy(0); }  // [RES-1]
};

}  // namespace

Var reshape(const Var& x, const std::vector<std::int64_t>& sizes) {
  check_floating("reshape", "x", x.value());
  return x.tape().record(x.value().reshape(sizes), {x}, ReshapeNode{});
}

}  // namespace foldgrad
