// Attention in decoding: to rows of a cache, and of single rows to keys that lie anywhere.
#include "ops/attention/cached_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "ops/attention/step_attention.h"
#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

// Queries with 0, 1, 31, 32, 33 and 70 keys, the last two sharing some: none, one, a warp and one less or more, and
// more than two warps. Keys lie in three blocks.
struct Cache {
  int heads;
  std::int64_t width;
  Tensor q;
  std::vector<Tensor> blocks;                                            // f64, on the host
  std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> rows;  // per query: block and row

  Cache(int heads, std::int64_t width) : heads(heads), width(width) {
    std::mt19937 random(1);
    std::normal_distribution<double> normal;
    const auto filled = [&](std::int64_t n, std::int64_t columns) {
      std::vector<double> values(std::size_t(n * columns));
      for (double& v : values) v = double(float(bf16(normal(random))));  // exact in every dtype
      return Tensor::of({n, columns}, values);
    };
    const std::int64_t sizes[] = {40, 1, 7};
    for (const std::int64_t n : sizes) blocks.push_back(filled(n, 2 * heads * width));
    for (const int keys : {0, 1, 31, 32, 33, 70}) {
      rows.emplace_back();
      for (int j = 0; j < keys; ++j) {
        const auto block = std::int64_t(random() % 3);
        rows.back().push_back({block, std::int64_t(random() % std::uint64_t(sizes[block]))});
      }
    }
    q = filled(std::int64_t(rows.size()), heads * width);
  }

  CachePlaces places(Device device) const {
    CachePlaces all;
    for (const auto& of_query : rows) {
      for (const auto& [block, row] : of_query) all.add(block, row);
      all.end_query();
    }
    all.upload(device);
    return all;
  }

  std::vector<double> attend(DType dtype, Device device) const {
    std::vector<Tensor> there;
    for (const Tensor& block : blocks) there.push_back(block.to(dtype).to(device));
    const Tensor y = cached_attention(q.to(dtype).to(device), there, places(device), heads);
    EXPECT_EQ(y.device(), device);
    return y.to(Device::cpu).to(DType::f64).values<double>();
  }

  std::vector<double> expected() const {  // [ATT-7]
    const std::int64_t C = heads * width;
    std::vector<double> y(std::size_t(q.size()));
    for (std::size_t r = 0; r < rows.size(); ++r)
      for (std::int64_t first = 0; first < C; first += width) {
        long double total = 0;
        std::vector<long double> weights;
        const auto at = [&](std::size_t j) {
          return blocks[std::size_t(rows[r][j].first)].data<double>() + rows[r][j].second * 2 * C;
        };
        for (std::size_t j = 0; j < rows[r].size(); ++j) {
          long double score = 0;
          for (std::int64_t c = first; c < first + width; ++c)
            score += (long double)(q.data<double>()[std::int64_t(r) * C + c]) * at(j)[c];
          weights.push_back(std::exp(score / std::sqrt((long double)(width))));
          total += weights.back();
        }
        for (std::int64_t c = first; c < first + width; ++c)
          for (std::size_t j = 0; j < rows[r].size(); ++j)
            y[r * std::size_t(C) + std::size_t(c)] += double(weights[j] / total * at(j)[C + c]);
      }
    return y;
  }
};

// Values are of size 1 and weights sum to 1; scores of up to 128 terms carry some 10 eps, which the exponential makes
// relative errors of a weight. bf16 rounds y alone, by half a unit in the last place of a value below 4.
TEST(CachedAttention, ATT_7_OnEveryDevice) {
  for (const auto& [heads, width] : {std::pair{2, 4}, {3, 20}, {1, 33}, {2, 128}}) {
    const Cache cache(heads, width);
    const std::vector<double> want = cache.expected();
    for (const Device device : devices())
      for (const auto& [dtype, tolerance] : {std::pair{DType::f32, 3e-6}, {DType::f64, 1e-14}, {DType::bf16, 0.02}}) {
        const std::vector<double> got = cache.attend(dtype, device);
        for (std::size_t i = 0; i < want.size(); ++i)
          ASSERT_LE(std::abs(got[i] - want[i]), tolerance)
              << width << " " << name(dtype) << " " << name(device) << " " << i;
      }
  }
}

TEST(CachedAttention, OfNoQueriesIsNothing) {
  for (const Device device : devices()) {
    CachePlaces none;
    none.upload(device);
    const Tensor q = Tensor::empty({0, 8}, DType::f32, device);
    EXPECT_EQ(cached_attention(q, {Tensor::zeros({1, 16}, DType::f32, device)}, none, 2).shape(), (Shape{0, 8}));
  }
}

TEST(CachedAttention, Errors) {
  CachePlaces one;
  one.add(0, 0);
  one.end_query();
  const Tensor q = Tensor::zeros({1, 4}, DType::f32), block = Tensor::zeros({3, 8}, DType::f32);
  EXPECT_EQ(message_of([&] { cached_attention(q, {block}, one, 2); }),
            "cached_attention: places must be i64 [2] on cpu, to go with q, which is f32 [1, 4] on cpu, got nothing");
  one.upload(Device::cpu);
  EXPECT_EQ(message_of([&] { one.upload(Device::cpu); }), "cached_attention: places are uploaded once");
  EXPECT_EQ(message_of([&] { cached_attention(q, {block}, one, 3); }),
            "cached_attention: q must be [queries, heads * width] of 3 heads, got [1, 4]");
  EXPECT_EQ(message_of([&] { cached_attention(q, {q}, one, 2); }),
            "cached_attention: a block must be f32 [1, 8] on cpu, to go with q, which is f32 [1, 4] on cpu, got f32 "
            "[1, 4] on cpu");
  EXPECT_EQ(message_of([&] {
              cached_attention(Tensor::zeros({2, 4}, DType::f32), {block}, one, 2);
            }),
            "cached_attention: places must be i64 [3] on cpu, to go with q, which is f32 [2, 4] on cpu, got i64 [2] on "
            "cpu");
}

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
}  // namespace foldgrad::testing
