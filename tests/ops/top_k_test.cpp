// Tests top_k() on every device.
#include "ops/top_k/top_k.h"

#include <algorithm>
#include <random>

#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

TEST(TopK, TOP_1_TOP_2_WorkedByHand) {
  for (const Device device : devices()) {
    const Tensor x = Tensor::of<double>({2, 4}, {1, 3, 3, 2, NAN, -INFINITY, 5, NAN}, device);
    const TopK top = top_k(x, 3, {3, 0});
    EXPECT_EQ(top.indices.values<std::int64_t>(), (std::vector<std::int64_t>{1, 2, 3, 2, 1, -1})) << name(device);
    const std::vector<double> wanted = top.wanted.values<double>();
    EXPECT_EQ(wanted[0], 2);
    EXPECT_EQ(wanted[1], 1);
    EXPECT_TRUE(std::isnan(wanted[2]) && std::isnan(wanted[3]));
    EXPECT_EQ(top.values.values<double>(), (std::vector<double>{3, 3, 2, 5, -INFINITY, -INFINITY})) << name(device);
    const std::vector<double> l = top.log_sum_exp.values<double>();
    EXPECT_NEAR(l[0], std::log(std::exp(1) + 2 * std::exp(3) + std::exp(2)), 1e-15 * 4) << name(device);
    EXPECT_TRUE(std::isnan(l[1])) << name(device);
  }
}

// Two rows have only nine different values, so there are many ties. The third row ascends, so the last threads have its
// largest entries. The numbers of columns are just below and above a warp and a block of 256 threads; 700 columns need
// several rounds of the block.
TEST(TopK, TOP_1_OfEqualOnesTheFirst) {
  std::mt19937 random(2);
  for (const Device device : devices())
    for (const std::int64_t columns : {1, 31, 32, 33, 255, 257, 700})
      for (const DType dtype : {DType::f32, DType::f64}) {
        constexpr std::int64_t kRows = 3;
        std::vector<double> values(std::size_t(kRows * columns));
        for (double& v : values) v = double(random() % 9) - 4;
        for (std::int64_t c = 0; c < columns; ++c) values[std::size_t(2 * columns + c)] = double(c) / 128;
        const std::int64_t k = std::min<std::int64_t>(columns, 12);
        const TopK top = top_k(Tensor::of({kRows, columns}, values).to(dtype).to(device), k);
        const std::vector<std::int64_t> got = top.indices.values<std::int64_t>();
        const std::vector<double> l = top.log_sum_exp.values<double>();
        for (std::int64_t r = 0; r < kRows; ++r) {
          const double* row = values.data() + r * columns;
          std::vector<std::int64_t> want;
          for (std::int64_t c = 0; c < columns; ++c) want.push_back(c);
          std::ranges::stable_sort(want, [row](std::int64_t a, std::int64_t b) { return row[a] > row[b]; });
          want.resize(std::size_t(k));
          ASSERT_TRUE(std::equal(want.begin(), want.end(), got.begin() + r * k)) << columns << " " << name(device);
          double sum = 0;
          for (std::int64_t c = 0; c < columns; ++c) sum += std::exp(row[c]);
          // The sum has up to 700 positive terms, in any order. The logarithm turns its relative error into an absolute
          // one.
          EXPECT_NEAR(l[std::size_t(r)], std::log(sum), dtype == DType::f32 ? 1e-5 : 1e-13) << name(device);
        }
      }
}

TEST(TopK, OfInfinityHasNoLogarithm) {
  for (const Device device : devices())
    for (const double v : {INFINITY, -INFINITY}) {
      const TopK top = top_k(Tensor::of<double>({1, 2}, {v, v}, device), 1);
      EXPECT_EQ(top.indices.values<std::int64_t>()[0], 0);
      EXPECT_TRUE(std::isnan(top.log_sum_exp.values<double>()[0])) << v << " " << name(device);
    }
}

TEST(TopK, Errors) {
  const Tensor x = Tensor::zeros({2, 3}, DType::f32);
  EXPECT_EQ(message_of([&] { top_k(x, 0); }), "top_k: k must be in [1, 3], got 0");
  EXPECT_EQ(message_of([&] { top_k(x, 4); }), "top_k: k must be in [1, 3], got 4");
  EXPECT_EQ(message_of([&] { top_k(x, 1, {0, 3}); }), "top_k: wanted columns must be in [0, 3), got 3");
  EXPECT_EQ(message_of([&] { top_k(x.to(DType::bf16), 1); }),
            "top_k: x must be f32 or f64 [rows, columns], got bf16 [2, 3] on cpu");
  EXPECT_EQ(message_of([&] { top_k(x.reshape({6}), 1); }),
            "top_k: x must be f32 or f64 [rows, columns], got f32 [6] on cpu");
}

}  // namespace
}  // namespace foldgrad::testing
