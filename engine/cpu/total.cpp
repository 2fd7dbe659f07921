#include "engine/total.h"

#include "engine/cpu/column_sums.h"
#include "engine/cpu/rows.h"

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

template void total_cpu(const Total<float>&);
template void total_cpu(const Total<double>&);
template void total_cpu(const Total<bf16>&);
template void total_cpu(const ColumnTotals<float>&);
template void total_cpu(const ColumnTotals<double>&);
template void total_cpu(const ColumnTotals<bf16>&);

}  // namespace foldgrad
