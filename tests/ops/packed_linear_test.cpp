#include "ops/linear/packed_linear.h"

#include <gtest/gtest.h>

#include "tests/harness/compare.h"

namespace foldgrad::testing {
namespace {

TEST(PackedLinear, WorkedByHand) {
  const Tensor w = Tensor::of<double>({2, 2}, {1, 2, 3, -4}), b = Tensor::of<double>({2}, {10, 0}),
               x = Tensor::of<double>({1, 2}, {1, 1});
  for (DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    const auto run = [&](std::optional<Activation> activation, double add) {
      const PackedLinearOptions options{.in = dtype, .out = dtype, .activation = activation, .add = add};
      const Tensor y = Tensor::full({1, 2}, 100, dtype);
      PackedLinear(w, b, options)(1, x.to(dtype).raw(), y.raw());
      return y.to(DType::f64).values<double>();
    };
    EXPECT_EQ(run({}, 0), (std::vector<double>{13, -1}));
    EXPECT_EQ(run(Activation::relu, 0), (std::vector<double>{13, 0}));
    EXPECT_EQ(run({}, 2), (std::vector<double>{213, 199}));
  }
}

// Every number of rows is a primitive of its own in the library, on weights packed once; odd sizes are padded in there.
// Tolerances: sums of 130 products in f32, and one rounding of the result to bf16.
TEST(PackedLinear, IsTheProductAndWhatFollows) {
  using Case = std::tuple<DType, DType, double>;
  for (const auto& [in, out, tolerance] :
       {Case{DType::f32, DType::f32, 1e-5}, {DType::bf16, DType::f32, 1e-5}, {DType::bf16, DType::bf16, 4e-3}})
    for (std::int64_t rows : {1, 5, 17, 65})
      for (std::int64_t n : {1, 67}) {
        const std::int64_t k = 130;
        const Tensor w = randn({n, k}, 1, 0.1).to(in), b = randn({n}, 2).to(in), x = randn({rows, k}, 3).to(in);
        for (int follows = 0; follows < 3; ++follows) {
          PackedLinearOptions options;
          options.in = in, options.out = out;
          if (follows == 1) options.activation = Activation::gelu;
          if (follows == 2) options.add = 0.5;
          if (follows == 2 && out == DType::bf16) continue;
          const Tensor start = randn({rows, n}, 4).to(out), got = start.clone(), want = start.clone();
          PackedLinear(w, b, options)(rows, x.raw(), got.raw());
          plain_packed_linear(w, b, options)->run(rows, x.raw(), want.raw());
          EXPECT_TRUE(close(got, want, tolerance)) << name(in) << " " << rows << " x " << n << ", " << follows;
        }
      }
}

// A library may know some of them and call others by a wrong name. Tolerances: sums of 33 products in f32, and one
// rounding of the result to bf16.
TEST(PackedLinear, EveryActivationFollowsTheProduct) {
  const std::int64_t rows = 5, n = 19, k = 33;
  for (const auto& [dtype, tolerance] : {std::pair(DType::f32, 1e-5), {DType::bf16, 4e-3}}) {
    const Tensor w = randn({n, k}, 1, 0.3).to(dtype), b = randn({n}, 2).to(dtype), x = randn({rows, k}, 3).to(dtype);
    for (const Activation f : kActivations) {
      const PackedLinearOptions options{.in = dtype, .out = dtype, .activation = f};
      const Tensor got = Tensor::zeros({rows, n}, dtype), want = Tensor::zeros({rows, n}, dtype);
      PackedLinear(w, b, options)(rows, x.raw(), got.raw());
      plain_packed_linear(w, b, options)->run(rows, x.raw(), want.raw());
      EXPECT_TRUE(close(got, want, tolerance)) << name(dtype) << ", " << name(f);
    }
  }
}

}  // namespace
}  // namespace foldgrad::testing
