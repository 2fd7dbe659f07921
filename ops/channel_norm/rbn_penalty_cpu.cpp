#include "engine/cpu/elementwise.h"
#include "ops/channel_norm/rbn_penalty_kernels.h"

namespace foldgrad {

template <class T>
void rbn_penalty_cpu(const RbnPenalty<T>& p) {
  double sum = 0;
  for (std::int64_t c = 0; c < p.columns; ++c) sum += p.term(c);
  *p.y = T(sum);
}
template <class T>
void rbn_penalty_cpu(const RbnPenaltyBackward<T>& p) {
  elementwise_cpu(p.forward.columns, p);
}

template void rbn_penalty_cpu(const RbnPenalty<float>&);
template void rbn_penalty_cpu(const RbnPenalty<double>&);
template void rbn_penalty_cpu(const RbnPenalty<bf16>&);
template void rbn_penalty_cpu(const RbnPenaltyBackward<float>&);
template void rbn_penalty_cpu(const RbnPenaltyBackward<double>&);
template void rbn_penalty_cpu(const RbnPenaltyBackward<bf16>&);

}  // namespace foldgrad
