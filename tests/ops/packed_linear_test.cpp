#include "ops/linear/packed_linear.h"

#include <gtest/gtest.h>

#include "tests/harness/compare.h"

namespace foldgrad::testing {
namespace {

// A library may know some of them and call others by a wrong name. Tolerances: sums of 33 products in f32, and one
// rounding of the result to bf16.
TEST(PackedLinear, EveryActivationFollowsTheProduct) {
  const std::int64_t rows = 5, n = 19, k = 33;
  for (const auto& [dtype, tolerance] : {std::pair(DType::f32, 1e-5), {DType::bf16, 4e-3}}) {
    const Tensor w = randn({n, k}, 1, 0.3).to(dtype), b = randn({n}, 2).to(dtype), x = randn({rows, k}, 3).to(dtype);
    for (const Activation f : {Activation::relu, Activation::tanh, Activation::sigmoid, Activation::silu,
                               Activation::gelu, Activation::gelu_tanh}) {
      const PackedLinearOptions options{.in = dtype, .out = dtype, .activation = f};
      const Tensor got = Tensor::zeros({rows, n}, dtype), want = Tensor::zeros({rows, n}, dtype);
      PackedLinear(w, b, options)(rows, x.raw(), got.raw());
      plain_packed_linear(w, b, options)->run(rows, x.raw(), want.raw());
      EXPECT_TRUE(close(got, want, tolerance)) << name(dtype) << ", activation " << int(f);
    }
  }
}

}  // namespace
}  // namespace foldgrad::testing
