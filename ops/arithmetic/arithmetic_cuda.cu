#include "engine/cuda/elementwise.h"
#include "engine/cuda/matrix.h"
#include "ops/arithmetic/arithmetic_kernels.h"

namespace foldgrad {

template <class Kernel>
void arithmetic_cuda(const Kernel& p) {
  elementwise_packs_cuda<kPackOf<Kernel>>("arithmetic", p.n, p);
}
template <class T>
void add_bias_cuda(const AddBiasForward<T>& p) {
  matrix_cuda<kPackSize<T>>("add_bias forward", p.rows, p.columns, p);
}

FOLDGRAD_INSTANTIATE(arithmetic_cuda, AddForward);
FOLDGRAD_INSTANTIATE(arithmetic_cuda, SubForward);
FOLDGRAD_INSTANTIATE(arithmetic_cuda, MulForward);
FOLDGRAD_INSTANTIATE(arithmetic_cuda, MulBackward);
FOLDGRAD_INSTANTIATE(arithmetic_cuda, ScaleForward);
FOLDGRAD_INSTANTIATE(arithmetic_cuda, ScaleBackward);
FOLDGRAD_INSTANTIATE(add_bias_cuda, AddBiasForward);

}  // namespace foldgrad
