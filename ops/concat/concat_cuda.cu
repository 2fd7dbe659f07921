#include "engine/cuda/cells.h"
#include "engine/cuda/pack.h"
#include "ops/concat/concat_kernels.h"

namespace foldgrad {
namespace {

template <class T, int N>
struct CopyPack {
  CopyRows<T> p;

  __device__ void operator()(std::int64_t, std::int64_t r, std::int64_t c) const {
    const std::int64_t from = c - p.zeros_before;
    const bool inside = 0 <= from && from < p.columns;
    const Pack<T, N> x = load_pack<N>(inside ? p.x + r * p.row_x + from : p.x, inside);  // zeros where it is not
    compute_t<T> values[N];
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e) values[e] = compute_t<T>(x.v[e]);
    put_pack(p.y, r * p.row_y + c, values);
  }
};

}  // namespace

template <class T>
void copy_rows_cuda(const CopyRows<T>& p) {
  constexpr int N = kPackSize<T>;
  // A named array: nvcc garbles a braced list in the head of a loop when it rewrites a template for the host compiler.
  const std::int64_t sizes[] = {p.columns, p.row_x, p.row_y, p.zeros_before, p.zeros_after};
  bool packed = aligned_for_packs(16, p.x, p.y.data);
  for (const std::int64_t size : sizes) packed &= size % N == 0;
  if (packed)
    cells_cuda<N>("concat or slice", 1, p.rows, p.width(), CopyPack<T, N>{p});
  else
    cells_cuda("concat or slice", 1, p.rows, p.width(), CopyPack<T, 1>{p});
}

FOLDGRAD_INSTANTIATE(copy_rows_cuda, CopyRows);

}  // namespace foldgrad
