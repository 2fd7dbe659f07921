#include "ops/rbn_penalty/rbn_penalty_kernels.h"

namespace foldgrad {

template <class T>
void rbn_penalty_cpu(const RbnPenalty<T>& p) {
  double sum = 0;
  for (std::int64_t c = 0; c < p.columns; ++c) sum += p.term(c);
  *p.y = T(sum);
}
FOLDGRAD_INSTANTIATE(rbn_penalty_cpu, RbnPenalty);

}  // namespace foldgrad
