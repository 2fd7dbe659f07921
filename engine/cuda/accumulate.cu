#include "engine/accumulate_kernels.h"
#include "engine/cuda/elementwise.h"

namespace foldgrad {

template <class T>
void accumulate_cuda(const Accumulate<T>& p, std::int64_t n) {
  elementwise_cuda("accumulate", n, p);
}
template void accumulate_cuda(const Accumulate<float>&, std::int64_t);
template void accumulate_cuda(const Accumulate<double>&, std::int64_t);
template void accumulate_cuda(const Accumulate<bf16>&, std::int64_t);

}  // namespace foldgrad
