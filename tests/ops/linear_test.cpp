#include "ops/linear/linear.h"

#include <gtest/gtest.h>

#include "ops/linear/packed_linear.h"
#include "tests/harness/by_hand.h"
#include "tests/harness/properties.h"

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

// Columns around a warp and rows for several blocks of rows, for the sums of db.
const RegisterOp kLinear({
    .name = "linear",
    .cases = {linear_case({3, 2}, 4), linear_case({2, 2, 3}, 2, false), linear_case({1, 1}, 1), linear_case({5}, 3),
              linear_case({0, 2}, 3), linear_case({2, 0}, 3), linear_case({40, 7}, 33),
              linear_case({5, 64}, 31, false)},
    .errors =
        {linear_error("linear: weight must be f32 [4, 3] on cpu, to go with x, which is f32 [2, 3] on cpu, got "
                      "f32 [4, 2] on cpu",
                      {{2, 3}, {4, 2}}),
         linear_error("linear: weight must be f32 [4, 4] on cpu, to go with x, which is f32 [4] on cpu, got f32 "
                      "[4] on cpu",
                      {{4}, {4}}),
         linear_error("linear: bias must be f32 [4] on cpu, to go with x, which is f32 [2, 3] on cpu, got f32 [3] "
                      "on cpu",
                      {{2, 3}, {4, 3}, {3}}),
         linear_error("linear: x must be f32, f64 or bf16 with at least 1 axes, got f32 [] on cpu", {{}, {4, 3}})},
    // Sums of up to 64 products.
    .f32_roundoffs = 400,
});

// Powers of two and small integers, so that every order of summation is exact.
TEST(Linear, LIN_1_LIN_2_LIN_3_LIN_4_WorkedByHand) {
  expect_by_hand(
      {.operands = {numbers({2, 2}, {1, 2, 3, 4}), numbers({3, 2}, {1, 0, 0, 1, 2, -1}), numbers({3}, {10, 20, 30})},
       .y = {11, 22, 30, 13, 24, 32},
       .dy = {1, 0, 2, 0, 1, -1},
       .gradients = {{5, -2, -2, 2}, {1, 2, 3, 4, -1, 0}, {1, 1, 1}}},
      linear_of);
}

// Folding rests on this: a diagonal map before the layer is the layer with scaled columns, and a shift is a bias.
RC_GTEST_PROP(Linear, LIN_1_ScaleAndShiftOfTheInputMoveIntoTheLayer, ()) {
  const int rows = *rc::gen::inRange(1, 6), in = *rc::gen::inRange(1, 9), out = *rc::gen::inRange(1, 9);
  const Tensor x = randn({rows, in}, 1), w = randn({out, in}, 2), b = randn({out}, 3), s = randn({in}, 4),
               t = randn({in}, 5);
  Tensor mapped = x.clone(), folded = w.clone(), shifted = b.clone();
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < in; ++c) {
      double& v = mapped.data<double>()[r * in + c];
      v = v * s.data<double>()[c] + t.data<double>()[c];
    }
  for (int o = 0; o < out; ++o)
    for (int c = 0; c < in; ++c) {
      shifted.data<double>()[o] += w.data<double>()[o * in + c] * t.data<double>()[c];
      folded.data<double>()[o * in + c] *= s.data<double>()[c];
    }
  Tape tape;
  const Tensor plain = linear(tape.constant(mapped), tape.constant(w), tape.constant(b)).value();
  const Tensor moved = linear(tape.constant(x), tape.constant(folded), tape.constant(shifted)).value();
  RC_ASSERT(bool(close(moved, plain, 1e-13)));
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

// Every number of rows is a primitive of its own in the library, on weights packed once; odd sizes are padded in there.
// It may know some of the activations, and call others by a wrong name.
// Tolerances: sums of 130 products in f32, and one rounding of the result to bf16.
TEST(PackedLinear, IsTheProductAndWhatFollows) {
  std::vector<std::pair<std::optional<Activation>, double>> all_that_follows{{{}, 0}, {{}, 0.5}};
  for (const Activation f : kActivations) all_that_follows.emplace_back(f, 0);
  using Case = std::tuple<DType, DType, double>;
  for (const auto& [in, out, tolerance] :
       {Case{DType::f32, DType::f32, 1e-5}, {DType::bf16, DType::f32, 1e-5}, {DType::bf16, DType::bf16, 4e-3}})
    for (std::int64_t rows : {1, 5, 17, 65})
      for (std::int64_t n : {1, 67}) {
        const std::int64_t k = 130;
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

}  // namespace
}  // namespace foldgrad::testing
