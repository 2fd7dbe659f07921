#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/top_k/top_k_kernels.h"

namespace foldgrad {

template <class T>
void top_k_cpu(const TopKParams<T>& p) {
  constexpr T kNothing = -std::numeric_limits<T>::infinity();
  for (std::int64_t r = 0; r < p.rows; ++r) {
    const T* x = p.x + r * p.columns;
    std::vector<Entry<T>> entries;
    for (std::int64_t c = 0; c < p.columns; ++c)
      if (!std::isnan(x[c])) entries.push_back({x[c], c});
    entries.resize(std::max(entries.size(), std::size_t(p.k)), {kNothing, -1});
    std::partial_sort(entries.begin(), entries.begin() + p.k, entries.end(),
                      [](const Entry<T>& a, const Entry<T>& b) { return a.before(b); });  // [TOP-1]
    for (std::int64_t i = 0; i < p.k; ++i) {
      p.values[r * p.k + i] = entries[std::size_t(i)].value;
      p.indices[r * p.k + i] = entries[std::size_t(i)].index;
    }
    for (std::int64_t i = 0; i < p.wanted_columns; ++i) p.wanted[r * p.wanted_columns + i] = x[p.columns_wanted[i]];
    T sum = 0;
    for (std::int64_t c = 0; c < p.columns; ++c) sum += std::exp(x[c] - entries[0].value);
    p.log_sum_exp[r] = entries[0].value + std::log(sum);  // [TOP-2]
  }
}

template void top_k_cpu(const TopKParams<float>&);
template void top_k_cpu(const TopKParams<double>&);

}  // namespace foldgrad
