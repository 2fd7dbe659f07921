// Attention of single rows, in company or alone, to keys that lie anywhere.
#include "ops/attention/step_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

namespace foldgrad {
namespace {

// Rows of four groups, of 1, 5, 3 and 7 rows: a group shares all its keys, the first few, or none.
template <class T>
struct Case {
  std::int64_t heads, width, keys, shared;
  std::vector<std::int64_t> groups{0, 1, 6, 9, 16};
  std::vector<T> queries, cache;                // [16, C]; [16 * keys + 1, 2 C], key and value side by side
  std::vector<std::vector<std::int64_t>> rows;  // of cache, per query

  Case(std::int64_t heads, std::int64_t width, std::int64_t keys, std::int64_t shared)
      : heads(heads), width(width), keys(keys), shared(shared) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    const auto fill = [&](std::int64_t n) {
      std::vector<T> values(n);
      for (T& v : values) v = T(normal(random));
      return values;
    };
    queries = fill(groups.back() * C());
    cache = fill((groups.back() * keys + 1) * 2 * C());
    for (std::size_t g = 0; g + 1 < groups.size(); ++g)
      for (std::int64_t r = groups[g]; r < groups[g + 1]; ++r) {
        rows.emplace_back();
        for (std::int64_t j = 0; j < keys; ++j) rows.back().push_back((j < shared ? groups[g] : r) * keys + j);
      }
  }
  std::int64_t C() const { return heads * width; }

  std::vector<T> attend(const std::vector<std::int64_t>& company) const {
    std::vector<T> y(groups.back() * C());
    attend_rows(
        StepAttention<T>{
            .y = y.data(), .q = queries.data(), .q_row = C(), .heads = heads, .width = width, .value_offset = C()},
        company, groups.back() * keys, [this](std::int64_t r, std::vector<const T*>& chosen) {
          for (std::int64_t row : rows[r]) chosen.push_back(cache.data() + row * 2 * C());
        });
    return y;
  }

  // softmax(q k / sqrt(width)) v of row r
  std::vector<long double> expected(std::int64_t r) const {
    std::vector<long double> y(C());
    for (std::int64_t first = 0; first < C(); first += width) {
      std::vector<long double> weights;
      long double top = -INFINITY, total = 0;
      for (std::int64_t row : rows[r]) {
        long double score = 0;
        for (std::int64_t i = first; i < first + width; ++i)
          score += (long double)(compute_t<T>(queries[r * C() + i])) * compute_t<T>(cache[row * 2 * C() + i]);
        weights.push_back(score / std::sqrt((long double)(width)));
        top = std::max(top, weights.back());
      }
      for (long double& weight : weights) total += weight = std::exp(weight - top);
      for (std::int64_t i = first; i < first + width; ++i)
        for (std::int64_t j = 0; j < keys; ++j)
          y[i] += weights[j] / total * compute_t<T>(cache[rows[r][j] * 2 * C() + C() + i]);
    }
    return y;
  }
};

template <class T>
void check(double tolerance) {
  for (const auto& [heads, width] : {std::pair{2, 4}, {3, 20}, {1, 64}, {2, 128}})
    for (std::int64_t keys : {0, 1, 4, 5, 13, 33})
      for (std::int64_t shared : {std::int64_t(0), std::min<std::int64_t>(keys, 6), keys}) {
        const Case<T> c(heads, width, keys, shared);
        const std::vector<T> together = c.attend(c.groups);
        std::vector<std::int64_t> alone(c.groups.back() + 1);
        for (std::size_t r = 0; r < alone.size(); ++r) alone[r] = std::int64_t(r);
        ASSERT_EQ(std::memcmp(together.data(), c.attend(alone).data(), together.size() * sizeof(T)), 0)
            << "rows in company differ: width " << width << ", " << keys << " keys, shared " << shared;
        for (std::int64_t r = 0; r < c.groups.back(); ++r) {
          const std::vector<long double> expected = c.expected(r);
          for (std::int64_t i = 0; i < c.C(); ++i)
            ASSERT_LE(std::fabs((long double)(compute_t<T>(together[r * c.C() + i])) - expected[i]), tolerance)
                << "width " << width << ", " << keys << " keys, shared " << shared << ", row " << r << ", channel "
                << i;
        }
      }
}

// Values are of size 1 and weights sum to 1. What rounds: up to 128 terms of a score of at most 5 or so, some 10 eps of
// absolute error, which the exponential makes relative ones of a weight.
TEST(StepAttention, IsSoftmaxOverTheChosenKeysInAnyCompany) {
  check<float>(2e-6);
  check<double>(4e-15);
  check<bf16>(0.02);  // y has 8 bits: half a unit in the last place of a value below 4 is 2^-7
}

}  // namespace
}  // namespace foldgrad
