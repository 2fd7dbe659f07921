// Compares cached_attention() with its formula on every device.
#include "ops/attention/cached_attention.h"

#include <random>

#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

// For each query, the places of its keys in the cache: pairs of a block and a row.
using Places = std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>>;

// Each row of `q` and `blocks` has a query, a key and a value side by side, as a joint projection computes them. The
// operation reads the queries from `q`, and the keys and values from `blocks`.
struct Cache {
  int heads;
  std::int64_t width;
  Places rows;
  Tensor q;
  std::vector<Tensor> blocks;  // f64, on the host

  Cache(int heads, std::int64_t width, const std::vector<std::int64_t>& sizes, Places rows)
      : heads(heads), width(width), rows(std::move(rows)) {
    std::mt19937 random(1);
    std::normal_distribution<double> normal;
    const auto filled = [&](std::int64_t n) {
      std::vector<double> values(std::size_t(n * 3 * C()));
      for (double& v : values) v = double(float(bf16(normal(random))));  // exact in every dtype
      return Tensor::of({n, 3 * C()}, values);
    };
    for (const std::int64_t n : sizes) blocks.push_back(filled(n));
    q = filled(std::int64_t(this->rows.size()));
  }
  std::int64_t C() const { return heads * width; }

  // Runs cached_attention() for the queries [begin, end).
  Tensor attend(DType dtype, Device device, std::size_t begin, std::size_t end) const {
    std::vector<Tensor> there;
    for (const Tensor& block : blocks) there.push_back(block.to(dtype).to(device));
    CachePlaces places;
    for (std::size_t r = begin; r < end; ++r) {
      for (const auto& [block, row] : rows[r]) places.add(block, row);
      places.end_query();
    }
    places.upload(device);
    const Tensor some = q.slice(std::int64_t(begin), std::int64_t(end)).to(dtype).to(device);
    const Tensor y = cached_attention(some, there, places, heads, width);
    EXPECT_EQ(y.device(), device);
    return y.to(Device::cpu);
  }

  Tensor expected() const {  // [ATT-7]
    const Tensor all = Tensor::zeros({q.shape()[0], C()}, DType::f64);
    double* y = all.data<double>();
    for (std::size_t r = 0; r < rows.size(); ++r)
      for (std::int64_t first = 0; first < C(); first += width) {
        long double total = 0;
        std::vector<long double> weights;
        const auto key = [&](std::size_t j) {
          return blocks[std::size_t(rows[r][j].first)].data<double>() + rows[r][j].second * 3 * C() + C();
        };
        for (std::size_t j = 0; j < rows[r].size(); ++j) {
          long double score = 0;
          for (std::int64_t c = first; c < first + width; ++c)
            score += (long double)(q.data<double>()[std::int64_t(r) * 3 * C() + c]) * key(j)[c];
          weights.push_back(std::exp(score / std::sqrt((long double)(width))));
          total += weights.back();
        }
        for (std::int64_t c = first; c < first + width; ++c)
          for (std::size_t j = 0; j < rows[r].size(); ++j)
            y[std::int64_t(r) * C() + c] += double(weights[j] / total * key(j)[C() + c]);
      }
    return all;
  }
};

// Values have magnitudes of about 1, and weights sum to 1. Scores are sums of up to 128 terms and have errors of about
// 10 eps, which exp turns into relative errors of the weights. In bf16, only y is rounded. |y| is below 4, so this
// error is at most 2^-7.
constexpr std::pair<DType, double> kTolerances[] = {{DType::f32, 3e-6}, {DType::f64, 1e-14}, {DType::bf16, 0.02}};

// The numbers of keys are 0, 1, the size of the CPU's groups (4), one more, values around the 32 lanes of a warp, and
// 70, more than two warps. The keys are in three blocks.
TEST(CachedAttention, ATT_7_OnEveryDevice) {
  const std::vector<std::int64_t> sizes{40, 1, 7};
  std::mt19937 random(2);
  Places rows;
  for (const int keys : {0, 1, 4, 5, 31, 32, 33, 70}) {
    rows.emplace_back();
    for (int j = 0; j < keys; ++j) {
      const auto block = std::int64_t(random() % 3);
      rows.back().push_back({block, std::int64_t(random() % std::uint64_t(sizes[std::size_t(block)]))});
    }
  }
  for (const auto& [heads, width] : {std::pair{2, 4}, {3, 20}, {1, 33}, {2, 128}}) {
    const Cache cache(heads, width, sizes, rows);
    for (const Device device : devices())
      for (const auto& [dtype, tolerance] : kTolerances)
        EXPECT_TRUE(close(cache.attend(dtype, device, 0, rows.size()), cache.expected(), tolerance))
            << width << " " << name(dtype) << " " << name(device);
  }
}

TEST(CachedAttention, OfNoQueriesIsNothing) {
  for (const Device device : devices()) {
    CachePlaces none;
    none.upload(device);
    const Tensor q = Tensor::empty({0, 8}, DType::f32, device);
    EXPECT_EQ(cached_attention(q, {Tensor::zeros({1, 16}, DType::f32, device)}, none, 2, 4).shape(), (Shape{0, 8}));
  }
}

TEST(CachedAttention, Errors) {
  CachePlaces one;
  one.add(0, 0);
  one.end_query();
  const Tensor q = Tensor::zeros({1, 4}, DType::f32), block = Tensor::zeros({3, 8}, DType::f32);
  const auto error = [&](const Tensor& queries, const std::vector<Tensor>& blocks, int heads = 2) {
    return message_of([&] { cached_attention(queries, blocks, one, heads, 2); });
  };
  EXPECT_EQ(error(q, {block}), "cached_attention: places must be i64 [2] on cpu (q is f32 [1, 4] on cpu), got nothing");
  one.upload(Device::cpu);
  EXPECT_EQ(message_of([&] { one.upload(Device::cpu); }), "cached_attention: places can be uploaded only once");
  EXPECT_EQ(error(q, {block}, /*heads=*/3),
            "cached_attention: q must have 2 axes, the second for 3 heads of 2 columns, got [1, 4]");
  EXPECT_EQ(error(q, {q}), "cached_attention: a block must have at least 8 columns, got [1, 4]");
  EXPECT_EQ(error(q, {block, Tensor::zeros({3, 9}, DType::f32)}),
            "cached_attention: a block must be f32 [3, 8] on cpu (q is f32 [1, 4] on cpu), got f32 [3, 9] on cpu");
  EXPECT_EQ(error(Tensor::zeros({2, 4}, DType::f32), {block}),
            "cached_attention: places must be i64 [3] on cpu (q is f32 [2, 4] on cpu), got i64 [2] on cpu");
}

}  // namespace
}  // namespace foldgrad::testing
