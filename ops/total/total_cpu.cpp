#include "engine/cpu/column_sums.h"
#include "engine/cpu/rows.h"
#include "ops/total/total.h"

namespace foldgrad {

template <class T>
void total_cpu(const Total<T>& p) {
  const compute_t<T>* values = p.values;
  p.out.put(0, sum_cpu<compute_t<T>>(p.n, [values](std::int64_t i) { return values[i]; }));
}
template <class T>
void total_cpu(const ColumnTotals<T>& p) {
  column_sums_cpu(p);
}

FOLDGRAD_INSTANTIATE(total_cpu, Total);
FOLDGRAD_INSTANTIATE(total_cpu, ColumnTotals);

}  // namespace foldgrad
