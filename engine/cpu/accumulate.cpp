#include "engine/accumulate_kernels.h"
#include "engine/cpu/elementwise.h"

namespace foldgrad {

template <class T>
void accumulate_cpu(const Accumulate<T>& p) {
  elementwise_cpu(p.n, p);
}
FOLDGRAD_INSTANTIATE(accumulate_cpu, Accumulate);

void accumulate_cpu(const AccumulateBf16& p) { elementwise_cpu(p.n, p); }

}  // namespace foldgrad
