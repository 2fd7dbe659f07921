#include "ops/cast/cast.h"

#include "engine/cpu/elementwise.h"
#include "engine/graph/graph.h"
#include "ops/cast/cast_kernels.h"

namespace foldgrad {
namespace {

void run(const Tensor& y, GradMode mode, const Tensor& x) {
  dispatch_any(x.dtype(), [&]<class From>(Type<From>) {
    dispatch_floating("cast", y.dtype(), [&]<class To>(Type<To>) {
      if constexpr (!std::is_same_v<From, To>) {
        const Cast<From, To> p{.y = {y.data<To>(), mode}, .x = x.data<From>(), .n = x.size()};
        FOLDGRAD_RUN(x.device(), elementwise, p);
      }
    });
  });
}

struct CastNode {
  const char* name() const { return "cast"; }
  void backward(NodeGrads& grads) {
    const auto [dx, mode] = grads.place(0);
    run(dx, mode, grads.dy());
  }
  void describe(Description& d) const { d.numbers = Description::Numbers::same; }
  std::string passes(const Graph&, const GraphUse&, ChannelMap&) const { return ""; }
};

}  // namespace

Var cast(const Var& xv, DType dtype) {
  const Tensor& x = xv.value();
  FOLDGRAD_CHECK(x.defined() && is_floating(dtype), "cast: goes from any tensor to f32, f64 or bf16, got {} to {}",
                 describe(x), name(dtype));
  if (x.dtype() == dtype) return xv;
  const Tensor y = Tensor::empty(x.shape(), dtype, x.device());
  run(y, GradMode::set, x);
  return xv.tape().record(y, {xv}, CastNode{});
}

}  // namespace foldgrad
