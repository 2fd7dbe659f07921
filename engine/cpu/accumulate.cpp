#include "engine/accumulate_kernels.h"
#include "engine/cpu/elementwise.h"

namespace foldgrad {

template <class T>
void accumulate_cpu(const Accumulate<T>& p, std::int64_t n) {
  elementwise_cpu(n, p);
}
template void accumulate_cpu(const Accumulate<float>&, std::int64_t);
template void accumulate_cpu(const Accumulate<double>&, std::int64_t);
template void accumulate_cpu(const Accumulate<bf16>&, std::int64_t);

}  // namespace foldgrad
