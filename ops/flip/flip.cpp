#include "ops/flip/flip.h"

#include <algorithm>

#include "engine/cpu/elementwise.h"
#include "engine/graph/graph.h"
#include "engine/graph/onnx_graph.h"
#include "engine/node_grads.h"
#include "ops/flip/flip_kernels.h"

namespace foldgrad {
namespace {

void run(const Tensor& y, GradMode mode, const Tensor& x, int axis) {
  dispatch_floating("flip", x.dtype(), [&]<class T>(Type<T>) {
    const Flip<T> p{.y = {y.data<T>(), mode},
                    .x = x.data<T>(),
                    .n = x.size(),
                    .length = x.shape()[axis],
                    .inner = x.shape().stride(axis)};
    FOLDGRAD_RUN(x.device(), elementwise, p);
  });
}

struct FlipNode {
  int axis;

  const char* name() const { return "flip"; }

  // Differentiates flip [FLIP-1]: computes dx [FLIP-2].
  void backward(NodeGrads& grads) {
    const auto [dx, mode] = grads.place(0, grads.dy().dtype());
    run(dx, mode, grads.dy(), axis);
  }

  void describe(Description& d) const {
    d.passes = [this](const Graph& graph, const GraphUse& use, ChannelMap& w) -> std::string {  // [FLIP-3]
      if (axis != w.place.axis) return "";
      std::reverse(w.map.A.begin(), w.map.A.end());
      std::reverse(w.map.B.begin(), w.map.B.end());
      w.place.offset = graph.shape(use)[axis] - w.place.offset - w.map.channels() * w.place.repeat;
      return "";
    };
    d.onnx = [this](OnnxGraph& g, const OnnxOperands& in) {
      const std::string last = g.integers({-1}), before_first = g.integers({INT64_MIN});
      return g.node("Slice", {in[0], last, before_first, g.integers({axis}), last});  // a slice with step -1
    };
  }
};

}  // namespace

Var flip(const Var& xv, int axis) {
  const Tensor& x = xv.value();
  check_floating("flip", "x", x, 1);
  axis = check_axis("flip", axis, x.shape());
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  run(y, GradMode::set, x, axis);
  return xv.tape().record(y, {xv}, FlipNode{.axis = axis});
}

}  // namespace foldgrad
