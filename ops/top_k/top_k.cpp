#include "ops/top_k/top_k.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "engine/cpu/rows.h"
#include "engine/cpu/vector_math.h"
#include "engine/dispatch.h"
#include "ops/top_k/top_k_kernels.h"

namespace foldgrad {
namespace {

constexpr std::int64_t kBlock = 64;  // a block's maximum, found without branches, shows whether its elements matter

template <class T>
T largest(const T* x, std::int64_t n) {
  T top = x[0];
#pragma omp simd reduction(max : top)
  for (std::int64_t c = 0; c < n; ++c) top = x[c] > top ? x[c] : top;
  return top;
}

// Returns log sum_c exp(x_c) of a row, whose largest entry is `top`.
template <class T>
double log_sum_exp(const T* x, std::int64_t n, T top) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < n; ++c) sum += fast_exp_nonpositive(x[c] - top);
  return double(top) + std::log(double(sum));  // [TOP-2]
}

// Returns a lower bound for the k largest entries: at least k blocks have a maximum that is not below it.
template <class T>
T bound_of(std::vector<T> tops, std::int64_t k) {
  const bool nan = std::ranges::any_of(tops, [](T top) { return std::isnan(top); });
  if (nan || std::int64_t(tops.size()) < k) return -std::numeric_limits<T>::infinity();
  const auto last = tops.begin() + (k - 1);
  std::nth_element(tops.begin(), last, tops.end(), std::greater<T>());
  return *last;
}

template <class T>
void top_k_of_row(const TopKParams<T>& p, std::int64_t r) {
  const T* x = p.x + r * p.columns;
  std::vector<T> tops(std::size_t((p.columns + kBlock - 1) / kBlock));
  for (std::int64_t begin = 0; begin < p.columns; begin += kBlock)
    tops[std::size_t(begin / kBlock)] = largest(x + begin, std::min(kBlock, p.columns - begin));
  const T bound = bound_of(tops, p.k);
  std::vector<Entry<T>> entries;
  for (std::int64_t begin = 0; begin < p.columns; begin += kBlock) {
    if (tops[std::size_t(begin / kBlock)] < bound) continue;
    for (std::int64_t c = begin; c < std::min(begin + kBlock, p.columns); ++c)
      if (x[c] >= bound) entries.push_back({x[c], c});
  }
  entries.resize(std::max(entries.size(), std::size_t(p.k)), {-std::numeric_limits<T>::infinity(), -1});
  std::partial_sort(entries.begin(), entries.begin() + p.k, entries.end(),
                    [](const Entry<T>& a, const Entry<T>& b) { return a.before(b); });  // [TOP-1]
  for (std::int64_t i = 0; i < p.k; ++i) {
    p.values[r * p.k + i] = entries[std::size_t(i)].value;
    p.indices[r * p.k + i] = entries[std::size_t(i)].index;
  }
  for (std::int64_t i = 0; i < p.wanted_columns; ++i) p.wanted[r * p.wanted_columns + i] = x[p.columns_wanted[i]];
  p.log_sum_exp[r] = log_sum_exp(x, p.columns, largest(tops.data(), std::int64_t(tops.size())));
}

}  // namespace

template <class T>
void top_k_cpu(const TopKParams<T>& p) {
  for_rows_cpu(p.rows, 2 * p.columns, [&p](std::int64_t r) { top_k_of_row(p, r); });  // each row is read twice
}

TopK top_k(const Tensor& x, std::int64_t k, const std::vector<std::int64_t>& wanted) {
  FOLDGRAD_CHECK(x.defined() && (x.dtype() == DType::f32 || x.dtype() == DType::f64) && x.shape().rank() == 2,
                 "top_k: x must be f32 or f64 [rows, columns], got {}", describe(x));
  const std::int64_t rows = x.shape()[0], columns = x.shape()[1];
  FOLDGRAD_CHECK(0 < k && k <= columns, "top_k: k must be in [1, {}], got {}", columns, k);
  for (const std::int64_t c : wanted)
    FOLDGRAD_CHECK(0 <= c && c < columns, "top_k: wanted columns must be in [0, {}), got {}", columns, c);
  const auto n = std::int64_t(wanted.size());
  const TopK top{Tensor::empty({rows, k}, x.dtype(), x.device()), Tensor::empty({rows, k}, DType::i64, x.device()),
                 Tensor::empty({rows}, DType::f64, x.device()), Tensor::empty({rows, n}, x.dtype(), x.device())};
  const Tensor columns_wanted = Tensor::of({n}, wanted, x.device());
  const auto run = [&]<class T>(Type<T>) {
    const TopKParams<T> p{.values = top.values.data<T>(),
                          .indices = top.indices.data<std::int64_t>(),
                          .log_sum_exp = top.log_sum_exp.data<double>(),
                          .wanted = top.wanted.data<T>(),
                          .x = x.data<T>(),
                          .columns_wanted = columns_wanted.data<std::int64_t>(),
                          .rows = rows,
                          .columns = columns,
                          .k = k,
                          .wanted_columns = n};
    FOLDGRAD_RUN(x.device(), top_k, p);
  };
  x.dtype() == DType::f32 ? run(Type<float>{}) : run(Type<double>{});
  return top;
}

}  // namespace foldgrad
