#include "ops/softmax/softmax.h"

#include "engine/cpu/row_op.h"
#include "engine/graph/description.h"
#include "engine/graph/onnx_graph.h"
#include "engine/node_grads.h"
#include "ops/softmax/softmax_kernels.h"

namespace foldgrad {
namespace {

struct SoftmaxNode {
  Tensor y;

  const char* name() const { return "softmax"; }

  // Differentiates softmax [SM-2]: computes dx [SM-3].
  void backward(NodeGrads& grads) {
    dispatch_floating(name(), y.dtype(), [&]<class T>(Type<T>) {
      const std::int64_t C = y.shape()[-1];
      const SoftmaxBackward<T> p{.dx = grads.out<T>(0),
                                 .dy = grads.dy().data<T>(),
                                 .y = y.data<T>(),
                                 .rows = C ? y.size() / C : 0,
                                 .columns = C};
      FOLDGRAD_RUN(y.device(), row_op, p);
    });
  }
  void describe(Description& d) const {
    d.sums_to_one = true;
    d.onnx = [](OnnxGraph& g, const OnnxOperands& in) {
      return g.node("Softmax", {in[0]}, {{"axis", std::int64_t(-1)}});
    };
  }
};

}  // namespace

Var softmax(const Var& xv) {
  const Tensor& x = xv.value();
  check_floating("softmax", "x", x, 1);
  const std::int64_t C = x.shape()[-1];
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  dispatch_floating("softmax", x.dtype(), [&]<class T>(Type<T>) {
    const SoftmaxForward<T> p{.y = y.data<T>(), .x = x.data<T>(), .rows = C ? x.size() / C : 0, .columns = C};
    FOLDGRAD_RUN(x.device(), row_op, p);
  });
  return xv.tape().record(y, {xv}, SoftmaxNode{.y = y});
}

}  // namespace foldgrad
