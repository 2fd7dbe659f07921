#include "ops/reduce/reduce.h"

#include "engine/cpu/rows.h"
#include "engine/node_grads.h"
#include "ops/reduce/reduce_kernels.h"

namespace foldgrad {

template <class T>
void reduce_cpu(const SumForward<T>& p) {
  using Value = compute_t<T>;
  for_rows_cpu(p.parts, p.n / std::max<std::int64_t>(p.parts, 1), [&p](std::int64_t part) {
    const T* x = p.x + p.begin(part);
    p.partials[part] = sum_cpu<Value>(p.begin(part + 1) - p.begin(part), [x](std::int64_t i) { return Value(x[i]); });
  });
  p.finish();
}

namespace {

struct SumNode {
  const char* op;  // "sum" or "mean"
  DType dtype;     // dtype of x, which itself is not needed
  std::int64_t n;
  double scale;

  const char* name() const { return op; }

  // Differentiates sum [RED-1] and mean [RED-2]: computes dx of a sum [RED-1] or of a mean [RED-2].
  void backward(NodeGrads& grads) {
    dispatch_floating(op, dtype, [&]<class T>(Type<T>) {
      using Value = compute_t<T>;
      const SumBackward<T> p{.dx = grads.out<T>(0), .dy = grads.dy().data<Value>(), .n = n, .scale = Value(scale)};
      FOLDGRAD_RUN(grads.dy().device(), elementwise, p);
    });
  }
  void describe(Description&) const {}
};

Var scaled_sum(const char* op, const Var& xv, double scale) {
  const Tensor& x = xv.value();
  return dispatch_floating(op, x.dtype(), [&]<class T>(Type<T>) {
    using Value = compute_t<T>;
    const std::int64_t parts = SumForward<T>::parts_of(x.size());
    const Tensor y = Tensor::empty({}, dtype_of<Value>, x.device());
    const Tensor partials = Tensor::empty({parts}, dtype_of<Value>, x.device());
    const SumForward<T> p{.y = y.data<Value>(),
                          .partials = partials.data<Value>(),
                          .x = x.data<T>(),
                          .n = x.size(),
                          .parts = parts,
                          .scale = Value(scale)};
    FOLDGRAD_RUN(x.device(), reduce, p);
    return xv.tape().record(y, {xv}, SumNode{.op = op, .dtype = x.dtype(), .n = x.size(), .scale = scale});
  });
}

}  // namespace

Var sum(const Var& x) {
  check_floating("sum", "x", x.value());
  return scaled_sum("sum", x, 1);
}

Var mean(const Var& x) {
  check_floating("mean", "x", x.value());
  FOLDGRAD_CHECK(x.value().size() > 0, "mean: x must have at least one element, got {}", x.shape());
  return scaled_sum("mean", x, 1 / double(x.value().size()));
}

}  // namespace foldgrad
