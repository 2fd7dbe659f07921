#include "engine/cuda/elementwise.h"
#include "engine/fill_kernels.h"

namespace foldgrad {

template <class T>
void fill_cuda(const Fill<T>& p) {
  elementwise_cuda("fill", p.n, p);
}
FOLDGRAD_INSTANTIATE_FILL(fill_cuda);

}  // namespace foldgrad
