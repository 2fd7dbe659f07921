#include "ops/cast/cast.h"

#include "engine/graph/graph.h"
#include "engine/node_grads.h"

namespace foldgrad {
namespace {

struct CastNode {
  const char* name() const { return "cast"; }
  // Differentiates cast [CAST-1]: computes dx [CAST-2].
  void backward(NodeGrads& grads) {
    const auto [dx, mode] = grads.place(0, grads.sum_dtype(0));
    accumulate(dx, grads.dy(), mode);  // [CAST-2]
  }
  void describe(Description& d) const {
    d.numbers = Description::Numbers::same;
    d.passes = [](const Graph&, const GraphUse&, ChannelMap&) -> std::string { return ""; };
  }
};

}  // namespace

Var cast(const Var& xv, DType dtype) {
  const Tensor& x = xv.value();
  FOLDGRAD_CHECK(x.defined() && is_floating(x.dtype()) && is_floating(dtype),
                 "cast: types must be f32, f64 or bf16, got a cast from {} to {}", describe(x), name(dtype));
  if (x.dtype() == dtype) return xv;
  const Tensor y = Tensor::empty(x.shape(), dtype, x.device());
  accumulate(y, x, GradMode::set);  // [CAST-1]
  return xv.tape().record(y, {xv}, CastNode{});
}

}  // namespace foldgrad
