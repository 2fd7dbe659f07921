#include "engine/cpu/elementwise.h"
#include "ops/flip/flip_kernels.h"

namespace foldgrad {

template <class T>
void flip_cpu(const Flip<T>& p) {
  elementwise_cpu(p.elements, p);
}

FOLDGRAD_INSTANTIATE(flip_cpu, Flip);

}  // namespace foldgrad
