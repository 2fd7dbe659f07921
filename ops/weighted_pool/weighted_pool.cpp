#include "ops/weighted_pool/weighted_pool.h"

#include "ops/weighted_pool/weighted_pool_kernels.h"

namespace foldgrad {
namespace {

struct WeightedPoolNode {
  Tensor x, w;

  const char* name() const { return "weighted_pool"; }

  void backward(NodeGrads& grads) {
    dispatch_floating(name(), x.dtype(), [&]<class T>(Type<T>) {
      const WeightedPoolBackward<T> p{.dx = grads.out<T>(0),
                                      .dw = grads.out<T>(1),
                                      .dy = grads.dy().data<T>(),
                                      .x = x.data<T>(),
                                      .w = w.data<T>(),
                                      .batch = x.shape()[0],
                                      .steps = x.shape()[1],
                                      .columns = x.shape()[2]};
      FOLDGRAD_RUN(x.device(), weighted_pool, p);
    });
  }
};

}  // namespace

Var weighted_pool(const Var& xv, const Var& wv) {
  const Tensor &x = xv.value(), &w = wv.value();
  check_floating("weighted_pool", "x", x, 3);
  FOLDGRAD_CHECK(x.shape().rank() == 3, "weighted_pool: x must have 3 axes, got {}", x.shape());
  const std::int64_t B = x.shape()[0], T_ = x.shape()[1], C = x.shape()[2];
  check_operand("weighted_pool", "w", w, {B, T_}, x, "x");
  const Tensor y = Tensor::empty({B, C}, x.dtype(), x.device());
  dispatch_floating("weighted_pool", x.dtype(), [&]<class T>(Type<T>) {
    const WeightedPoolForward<T> p{
        .y = y.data<T>(), .x = x.data<T>(), .w = w.data<T>(), .batch = B, .steps = T_, .columns = C};
    FOLDGRAD_RUN(x.device(), weighted_pool, p);
  });
  return xv.tape().record(y, {xv, wv}, WeightedPoolNode{.x = x, .w = w});
}

}  // namespace foldgrad
