#include <algorithm>

#include "engine/cpu/rows.h"
#include "engine/gemm/backends.h"

namespace foldgrad {
namespace {

// Number of columns that are summed at once (not tuned). The loop over them is vectorised if B has unit stride.
constexpr int kColumns = 64;

// Computes kColumns elements of row i of C, starting at column `first`. c, a and b point to the matrices of one batch
// entry.
template <class T, class C>
void row_block(const Gemm& g, C* c, const T* a, const T* b, std::int64_t i, std::int64_t first) {
  using Sum = compute_t<T>;
  const GemmStrides stride(g);
  const int columns = int(std::min<std::int64_t>(kColumns, g.n - first));
  Sum sum[kColumns] = {};
  for (std::int64_t p = 0; p < g.k; ++p) {
    const Sum a_ip = Sum(a[i * stride.a_i + p * stride.a_p]);
    const T* b_p = b + p * stride.b_p + first * stride.b_j;
    if (stride.b_j == 1)
      for (int j = 0; j < columns; ++j) sum[j] += a_ip * Sum(b_p[j]);
    else
      for (int j = 0; j < columns; ++j) sum[j] += a_ip * Sum(b_p[j * stride.b_j]);
  }
  C* c_i = c + i * g.row_stride_c + first;
  for (int j = 0; j < columns; ++j) {
    Sum value = Sum(g.alpha) * sum[j];
    if (g.beta != 0) value += Sum(g.beta) * Sum(c_i[j]);
    c_i[j] = C(value);
  }
}

}  // namespace

template <class T, class C>
void reference_gemm_cpu(const Gemm& g, C* c, const T* a, const T* b) {
  const std::int64_t across = (g.n + kColumns - 1) / kColumns;
  for_rows_cpu(g.batch * g.m * across, std::min<std::int64_t>(g.n, kColumns) * g.k / 2, [&](std::int64_t block) {
    const std::int64_t s = block / across / g.m, i = block / across % g.m, first = block % across * kColumns;
    row_block(g, c + s * g.batch_stride_c, a + s * g.batch_stride_a, b + s * g.batch_stride_b, i, first);
  });
}

template void reference_gemm_cpu(const Gemm&, float*, const float*, const float*);
template void reference_gemm_cpu(const Gemm&, double*, const double*, const double*);
template void reference_gemm_cpu(const Gemm&, float*, const bf16*, const bf16*);
template void reference_gemm_cpu(const Gemm&, bf16*, const bf16*, const bf16*);

}  // namespace foldgrad
