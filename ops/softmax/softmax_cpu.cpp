#include <type_traits>

#include "engine/rows_cpu.h"
#include "ops/softmax/softmax_kernels.h"

namespace foldgrad {
namespace {

namespace math = softmax_math;

// kept(c) says whether entry c is attended. Entries are read in any case and chosen afterwards, so that loops
// vectorise.
template <class T, class Kept>
void forward_row(T* y, const T* x, std::int64_t columns, const Kept& kept) {
  using Value = compute_t<T>;
  const Value m = math::shift(max_cpu<Value>(columns, [=](std::int64_t c) {
    const Value value = x[c];
    return kept(c) ? value : math::nothing<Value>();
  }));  // [SM-1]
  const auto exponential = [=](std::int64_t c) {
    const Value value = math::exponential(Value(x[c]), m);
    return kept(c) ? value : Value(0);
  };
  if constexpr (std::is_same_v<T, Value>) {
    const Value scale = math::scale(sum_cpu<Value>(columns, [=](std::int64_t c) { return y[c] = exponential(c); }));
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c) y[c] *= scale;  // [SM-2]
  } else {  // y is too short for the exponentials: rounding them first would round twice
    const Value scale = math::scale(sum_cpu<Value>(columns, exponential));
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c) y[c] = T(exponential(c) * scale);  // [SM-2]
  }
}

template <class T>
void forward_row(const SoftmaxForward<T>& p, std::int64_t r) {
  const T* x = p.x + r * p.columns;
  T* y = p.y + r * p.columns;
  if (p.mask) {
    const std::uint8_t* mask = p.mask + r / p.rows_per_mask * p.columns;
    forward_row(y, x, p.columns, [=](std::int64_t c) { return mask[c] != 0; });
  } else {
    forward_row(y, x, p.columns, [](std::int64_t) { return true; });
  }
}

template <class T>
void backward_row(const SoftmaxBackward<T>& p, std::int64_t r) {
  using Value = compute_t<T>;
  const std::int64_t columns = p.columns;
  const T *y = p.y + r * columns, *dy = p.dy + r * columns;
  const Value sum_dy_y = sum_cpu<Value>(columns, [=](std::int64_t c) { return Value(dy[c]) * Value(y[c]); });
  const GradOut<T> dx{p.dx.data + r * columns, p.dx.mode};
#pragma omp simd
  for (std::int64_t c = 0; c < columns; ++c) dx.put(c, math::dx(Value(y[c]), Value(dy[c]), sum_dy_y));
}

}  // namespace

template <class T>
void softmax_cpu(const SoftmaxForward<T>& p) {
  for_rows_cpu(p.rows, p.columns, [&p](std::int64_t r) { forward_row(p, r); });
}
template <class T>
void softmax_cpu(const SoftmaxBackward<T>& p) {
  for_rows_cpu(p.rows, p.columns, [&p](std::int64_t r) { backward_row(p, r); });
}

template void softmax_cpu(const SoftmaxForward<float>&);
template void softmax_cpu(const SoftmaxForward<double>&);
template void softmax_cpu(const SoftmaxForward<bf16>&);
template void softmax_cpu(const SoftmaxBackward<float>&);
template void softmax_cpu(const SoftmaxBackward<double>&);
template void softmax_cpu(const SoftmaxBackward<bf16>&);

}  // namespace foldgrad
