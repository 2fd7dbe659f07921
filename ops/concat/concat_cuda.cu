#include "engine/cuda/cells.h"
#include "ops/concat/concat_kernels.h"

namespace foldgrad {
namespace {

template <class T>
struct CopyElement {
  CopyRows<T> p;

  __device__ void operator()(std::int64_t, std::int64_t r, std::int64_t c) const {
    const std::int64_t from = c - p.zeros_before;
    const bool inside = 0 <= from && from < p.columns;
    p.y.put(r * p.row_y + c, inside ? compute_t<T>(p.x[r * p.row_x + from]) : compute_t<T>(0));
  }
};

}  // namespace

template <class T>
void copy_rows_cuda(const CopyRows<T>& p) {
  cells_cuda("concat or slice", 1, p.rows, p.width(), CopyElement<T>{p});
}

FOLDGRAD_INSTANTIATE(copy_rows_cuda, CopyRows);

}  // namespace foldgrad
