#include "ops/linear/linear.h"

#include "ops/affine/affine.h"
#include "ops/linear/packed_linear.h"
#include "ops/linear/stacked.h"
#include "tests/harness/by_hand.h"
#include "tests/harness/generators.h"

namespace foldgrad::testing {
namespace {

Var linear_of(const std::vector<Var>& v) { return v.size() == 3 ? linear(v[0], v[1], v[2]) : linear(v[0], v[1]); }

OpCase linear_case(const Shape& x, std::int64_t out, bool bias = true) {
  const Shape weight{out, x[-1]};
  return random_case(bias ? std::vector<Shape>{x, weight, {out}} : std::vector<Shape>{x, weight}, linear_of);
}
OpError linear_error(const char* message, std::vector<Shape> shapes) {
  return error_of_zeros(message, std::move(shapes), linear_of);
}

// One case has more columns than a warp has threads, and enough rows for db to be summed by several blocks.
const RegisterOp kLinear({
    .name = "linear",
    .cases = {linear_case({3, 2}, 4), linear_case({2, 2, 3}, 2, false), linear_case({1, 1}, 1), linear_case({5}, 3),
              linear_case({0, 2}, 3), linear_case({2, 0}, 3), linear_case({40, 7}, 33),
              linear_case({5, 64}, 31, false)},
    .errors = {linear_error("linear: weight must be f32 [4, 3] on cpu (x is f32 [2, 3] on cpu), got f32 [4, 2] on cpu",
                            {{2, 3}, {4, 2}}),
               linear_error("linear: weight must be f32 [4, 4] on cpu (x is f32 [4] on cpu), got f32 [4] on cpu",
                            {{4}, {4}}),
               linear_error("linear: bias must be f32 [4] on cpu (x is f32 [2, 3] on cpu), got f32 [3] on cpu",
                            {{2, 3}, {4, 3}, {3}}),
               linear_error("linear: x must be f32, f64 or bf16 of rank 1 or more, got f32 [] on cpu", {{}, {4, 3}})},
    // y sums up to 64 products.
    .f32_roundoffs = 400,
});

TEST(Stacked, RowsOneAfterAnother) {
  const Tensor x = Tensor::of<float>({2, 3, 2}, {1, 2, 3, 4, 90, 90, 90, 90, 5, 6, 90, 90});
  EXPECT_EQ(stacked({x.slice(1, 2), x}).values<float>(),
            (std::vector<float>{90, 90, 5, 6, 90, 90, 1, 2, 3, 4, 90, 90, 90, 90, 5, 6, 90, 90}));
  EXPECT_THROW(stacked({x, x.to(DType::f64)}), std::invalid_argument);
}

// All numbers are small integers, so sums are exact in every order.
TEST(Linear, LIN_1_LIN_2_LIN_3_LIN_4_WorkedByHand) {
  expect_by_hand(
      {.operands = {numbers({2, 2}, {1, 2, 3, 4}), numbers({3, 2}, {1, 0, 0, 1, 2, -1}), numbers({3}, {10, 20, 30})},
       .y = {11, 22, 30, 13, 24, 32},
       .dy = {1, 0, 2, 0, 1, -1},
       .gradients = {{5, -2, -2, 2}, {1, 2, 3, 4, -1, 0}, {1, 1, 1}}},
      linear_of);
}

// Folding relies on this: a scale of the input can move into the columns of W, and a shift t of the input becomes the
// bias W t + b.
RC_GTEST_PROP(Linear, LIN_1_ScaleAndShiftOfTheInputMoveIntoTheLayer, ()) {
  const int rows = *rc::gen::inRange(1, 6), in = *rc::gen::inRange(1, 9), out = *rc::gen::inRange(1, 9);
  Tape tape;
  const auto any = [&](const char* name, const Shape& shape) { return tape.constant(*any_tensor(shape).as(name)); };
  const Var x = any("x", {rows, in}), w = any("w", {out, in}), b = any("b", {out}), s = any("scale", {in}),
            t = any("shift", {in}), zero = tape.constant(Tensor::zeros({in}, DType::f64));
  const Var mapped = affine(x, s, t), folded = affine(w, s, zero), shifted = linear(t, w, b);
  RC_ASSERT(bool(close(linear(x, folded, shifted).value(), linear(mapped, w, b).value(), 1e-13)));
}

TEST(PackedLinear, WorkedByHand) {
  const Tensor w = Tensor::of<double>({2, 2}, {1, 2, 3, -4}), b = Tensor::of<double>({2}, {10, 0}),
               x = Tensor::of<double>({1, 2}, {1, 1});
  for (DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    const auto run = [&](std::optional<Activation> activation, double add) {
      const PackedLinearOptions options{.in = dtype, .out = dtype, .activation = activation, .add = add};
      const Tensor y = Tensor::full({1, 2}, 100, dtype);
      packed_linear(w, b, options)(1, x.to(dtype).raw(), y.raw());
      return y.to(DType::f64).values<double>();
    };
    EXPECT_EQ(run({}, 0), (std::vector<double>{13, -1}));
    EXPECT_EQ(run(Activation::relu, 0), (std::vector<double>{13, 0}));
    EXPECT_EQ(run({}, 2), (std::vector<double>{213, 199}));
  }
}

// oneDNN creates a primitive for each number of rows, packs the weights once, and pads odd sizes, so we test various
// sizes. It lacks some activations, and we may map others to the wrong oneDNN algorithm, so we test all. The tolerances
// allow for sums of up to 130 products in f32, and for one rounding of the result to bf16.
TEST(PackedLinear, IsTheProductAndWhatFollows) {
  std::vector<std::pair<std::optional<Activation>, double>> all_that_follows{{{}, 0}, {{}, 0.5}};
  for (const Activation f : kActivations) all_that_follows.emplace_back(f, 0);
  using Case = std::tuple<DType, DType, double>;
  for (const auto& [in, out, tolerance] :
       {Case{DType::f32, DType::f32, 1e-5}, {DType::bf16, DType::f32, 1e-5}, {DType::bf16, DType::bf16, 4e-3}})
    for (std::int64_t rows : {1, 5, 17, 65})
      for (const auto& [n, k] : {std::pair<std::int64_t, std::int64_t>{1, 130}, {67, 130}, {144, 63}}) {
        const Tensor w = randn({n, k}, 1, 0.1).to(in), b = randn({n}, 2).to(in), x = randn({rows, k}, 3).to(in);
        for (const auto& [activation, add] : all_that_follows) {
          if (add != 0 && out == DType::bf16) continue;
          const PackedLinearOptions options{.in = in, .out = out, .activation = activation, .add = add};
          const Tensor start = randn({rows, n}, 4).to(out), got = start.clone(), want = start.clone();
          packed_linear(w, b, options)(rows, x.raw(), got.raw());
          plain_packed_linear(w, b, options)(rows, x.raw(), want.raw());
          EXPECT_TRUE(close(got, want, tolerance)) << name(in) << " " << rows << " x " << n << ", add " << add << ", "
                                                   << (activation ? name(*activation) : "no activation");
        }
      }
}

// A NaN in a row of x does not change the results of other rows, even if oneDNN reads beyond the end of a row
// (nan_rows_test.cpp).
TEST(PackedLinear, NaNStaysInItsRow) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr std::int64_t n = 48;
  for (const DType in : {DType::f32, DType::bf16})
    for (const std::int64_t rows : {2, 17, 65})
      for (const std::int64_t k : {31, 33, 36, 63, 64, 100, 130}) {
        const PackedLinear layer = packed_linear(randn({n, k}, 1), Tensor(), {.in = in, .out = DType::f32});
        std::vector<double> some = randn({rows, k}, 2).values<double>();
        const auto run = [&] {
          const Tensor y = Tensor::zeros({rows, n}, DType::f32);
          layer(rows, Tensor::of<double>({rows, k}, some).to(in).raw(), y.raw());
          return y.values<float>();
        };
        const std::vector<float> want = run();
        for (std::int64_t e = 0; e < rows * k; ++e)
          if (e / k % 2) some[e] = kNaN;
        const std::vector<float> got = run();
        for (std::int64_t e = 0; e < rows * n; ++e)
          ASSERT_TRUE(e / n % 2 ? std::isnan(got[e]) : got[e] == want[e])
              << name(in) << ", k " << k << ", y[" << e / n << ", " << e % n << "] of " << rows << " rows: " << got[e]
              << ", without NaN " << want[e];
      }
}

}  // namespace
}  // namespace foldgrad::testing
