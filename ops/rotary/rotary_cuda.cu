#include "engine/cuda/cells.h"
#include "ops/rotary/rotary_kernels.h"

namespace foldgrad {

template <class T>
void rotary_cuda(const Rotary<T>& p) {
  cells_cuda("rotary", p.rows, p.heads, p.pairs, p);
}

FOLDGRAD_INSTANTIATE(rotary_cuda, Rotary);

}  // namespace foldgrad
