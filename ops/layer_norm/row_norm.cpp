#include "ops/layer_norm/row_norm.h"

#include "engine/cpu/rows.h"
#include "ops/layer_norm/layer_norm_math.h"

namespace foldgrad {

namespace math = layer_norm_math;

template <class X, class Y>
void row_norm(const RowNorm<X>& p, std::int64_t rows, const X* x, Y* y) {
  const std::int64_t C = p.columns;
  for_rows_cpu(rows, C, [=](std::int64_t r) {
    const X* in = x + r * C;
    const X mu = p.center ? sum_cpu<X>(C, [in](std::int64_t c) { return in[c]; }) / X(C) : X(0);
    const auto squares = [in, mu](std::int64_t c) { return math::squared_deviation(in[c], mu); };
    const X rstd = p.scale ? math::rstd(sum_cpu<X>(C, squares) / X(C), p.eps) : X(1);
    write_cpu(y + r * C, 0, C, /*bypass=*/false, [in, mu, rstd, A = p.A, B = p.B](std::int64_t c) {
      return math::y(math::xhat(in[c], mu, rstd), A[c], B[c]);
    });
  });
}

template void row_norm(const RowNorm<float>&, std::int64_t, const float*, float*);
template void row_norm(const RowNorm<double>&, std::int64_t, const double*, double*);
template void row_norm(const RowNorm<float>&, std::int64_t, const float*, bf16*);

}  // namespace foldgrad
