#include "engine/cpu/rows.h"
#include "ops/rbn_penalty/rbn_penalty_kernels.h"

namespace foldgrad {

template <class T>
void rbn_penalty_cpu(const RbnPenalty<T>& p) {
  double sum = 0;
  for (std::int64_t c = 0; c < p.columns; ++c) sum += p.term(c);
  *p.y = T(sum);
}
template <class T>
void rbn_penalty_cpu(const RbnPenaltyGradient<T>& p) {
  for_rows_cpu(p.rows, p.columns, [&p](std::int64_t r) {
    const std::int64_t begin = r * p.columns;
    write_cpu(p.dx, begin, begin + p.columns, bypasses_cache<T>(p.rows * p.columns),
              [local = p, begin](std::int64_t i) { return local.value(i, i - begin); });
  });
}

FOLDGRAD_INSTANTIATE(rbn_penalty_cpu, RbnPenalty);
FOLDGRAD_INSTANTIATE(rbn_penalty_cpu, RbnPenaltyGradient);

}  // namespace foldgrad
