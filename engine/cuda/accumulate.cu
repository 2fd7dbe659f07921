#include "engine/accumulate_kernels.h"
#include "engine/cuda/elementwise.h"

namespace foldgrad {

template <class T>
void accumulate_cuda(const Accumulate<T>& p) {
  elementwise_packs_cuda<kPackSize<T>>("accumulate", p.n, p);
}
FOLDGRAD_INSTANTIATE(accumulate_cuda, Accumulate);

void accumulate_cuda(const AccumulateBf16& p) {
  elementwise_packs_cuda<kPackSize<float>>("accumulate of bf16", p.n, p);
}

}  // namespace foldgrad
