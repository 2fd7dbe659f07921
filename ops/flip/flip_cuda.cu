#include "engine/cuda/elementwise.h"
#include "ops/flip/flip_kernels.h"

namespace foldgrad {

template <class T>
void flip_cuda(const Flip<T>& p) {
  elementwise_cuda("flip", p.elements, p);
}

FOLDGRAD_INSTANTIATE(flip_cuda, Flip);

}  // namespace foldgrad
