#include "ops/activation/activation.h"

#include <limits>

#include "tests/harness/by_hand.h"

namespace foldgrad::testing {
namespace {

std::vector<OpCase> activate_cases() {
  std::vector<OpCase> cases;
  for (Activation a : kActivations)
    // A block has 256 threads: the last shape has more elements, the other shapes have fewer.
    for (const Shape& shape : {Shape{2, 3}, Shape{}, Shape{100}, Shape{3, 257}})
      cases.push_back({.label = fmt::format("{} {}", name(a), shape),
                       .operands = {randn_off_zero(shape, 1)},  // relu has a kink at 0
                       .f = [a](const std::vector<Var>& v) { return activate(v[0], a); }});
  return cases;
}
std::vector<OpError> activate_errors() {
  std::vector<OpError> errors;
  for (Activation a : kActivations)
    errors.push_back(error_of_zeros(
        fmt::format("{}: x must be f32, f64 or bf16, got i64 [3] on cpu", name(a)), {{3}},
        [a](auto& v) { return activate(v[0], a); }, DType::i64));
  return errors;
}
const RegisterOp kActivate(
    {.name = "activate", .cases = activate_cases(), .errors = activate_errors(), .f32_roundoffs = 16});

TEST(Activation, EachNameIsAFunction) {
  EXPECT_STREQ(name(Activation::gelu_tanh), "gelu_tanh");
  Tape tape;
  const Var x = tape.variable(randn({8}, 1));
  EXPECT_TRUE(identical(gelu_tanh(x).value(), activate(x, Activation::gelu_tanh).value()));
}

OpCase bias_case(Activation activation, std::int64_t rows, std::int64_t columns) {
  // x + bias stays away from relu's kink at 0, because |x| is at least 0.1 and all biases are smaller.
  return {.label = fmt::format("{} of {} rows of {}", name(activation), rows, columns),
          .operands = {randn_off_zero({rows, columns}, 1, 0.1), randn({columns}, 2, 0.02)},
          .f = [activation](const std::vector<Var>& v) { return bias_activation(v[0], v[1], activation); }};
}
std::vector<OpCase> bias_cases() {
  std::vector<OpCase> cases;
  for (Activation a : kActivations) cases.push_back(bias_case(a, 3, 2)), cases.push_back(bias_case(a, 2, 33));
  cases.push_back(bias_case(Activation::gelu, 40, 3));
  cases.push_back(bias_case(Activation::gelu, 1, 31));
  cases.push_back(bias_case(Activation::relu, 70, 130));
  return cases;
}
const RegisterOp kBiasActivation({
    .name = "bias_activation",
    .cases = bias_cases(),
    .errors = {{"bias_activation: bias must be f32 [8] on cpu (x is f32 [2, 8] on cpu), got f32 [4] on cpu",
                [](Tape& t) { bias_activation(zeros(t, 2, 8), zeros(t, 4), Activation::relu); }},
               {"bias_activation: x must be f32, f64 or bf16 of rank 1 or more, got f32 [] on cpu",
                [](Tape& t) { bias_activation(zeros(t), zeros(t), Activation::gelu); }}},
    .bf16_roundoffs = 16,  // dbias sums up to 70 rows
});

// Checks y and its slope at x. The values at 0 are exact: tanh' = 1, sigmoid = 1/2 with slope 1/4, and x Phi(x) has
// slope Phi(0) = 1/2. The values at 1 were computed independently to 40 digits with mpmath 1.4.
TEST(Activation, ACT_1_ACT_2_ACT_3_ACT_4_ACT_5_ACT_6_ACT_7_ACT_10_ACT_11_ACT_12_AtKnownPoints) {
  struct Row {
    Activation activation;
    double x, y, slope;
  };
  for (const Row& row : {
           Row{Activation::relu, 2.5, 2.5, 1},
           Row{Activation::relu, -2.5, 0, 0},
           Row{Activation::relu, 0, 0, 0},
           Row{Activation::tanh, 0, 0, 1},
           Row{Activation::tanh, 1, 0.76159415595576489, 0.41997434161402607},
           Row{Activation::sigmoid, 0, 0.5, 0.25},
           Row{Activation::sigmoid, 1, 0.73105857863000488, 0.19661193324148185},
           Row{Activation::silu, 0, 0, 0.5},
           Row{Activation::silu, 1, 0.73105857863000488, 0.92767051187148673},
           Row{Activation::gelu, 0, 0, 0.5},
           Row{Activation::gelu, 1, 0.84134474606854295, 1.0833154705876863},
           Row{Activation::gelu_tanh, 0, 0, 0.5},
           Row{Activation::gelu_tanh, 1, 0.8411919906082767, 1.0829640838457826},
           Row{Activation::softplus, 1, 1.3132616875182228, 0.73105857863000488},
           Row{Activation::relu6, -1, 0, 0},
           Row{Activation::relu6, 5.5, 5.5, 1},
           Row{Activation::relu6, 6, 6, 0},
           Row{Activation::relu6, 6.5, 6, 0},
           Row{Activation::exp, 0, 1, 1},
           Row{Activation::exp, 1, 2.718281828459045, 2.718281828459045},
       }) {
    SCOPED_TRACE(fmt::format("{} at {}", name(row.activation), row.x));
    expect_by_hand({.operands = {numbers({1}, {row.x})},
                    .y = {row.y},
                    .dy = {1},
                    .gradients = {{row.slope}},
                    .tolerance = row.x == 1 ? 1e-15 : 0},
                   [&](auto& v) { return activate(v[0], row.activation); });
  }
}

// The rows of y are relu((1, -5) + (2, 3)) = (3, 0) and relu((-4, 1) + (2, 3)) = (0, 4).
TEST(BiasActivation, ACT_8_WorkedByHand) {
  expect_by_hand({.operands = {numbers({2, 2}, {1, -5, -4, 1}), numbers({2}, {2, 3})},
                  .y = {3, 0, 0, 4},
                  .dy = {1, 10, 100, 1000},
                  .gradients = {{1, 0, 0, 1000}, {1, 1000}}},
                 [](auto& v) { return bias_activation(v[0], v[1], Activation::relu); });
}

// Far from 0, y is x or the limit of the activation, and the slope is 1, 0 or, for exp, infinite. This holds in every
// precision, even where an exp inside the activation overflows. NaN gives NaN.
TEST(Activation, LimitsAndNaN) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (Device device : devices())
    for (DType dtype : {DType::f32, DType::f64, DType::bf16})
      for (Activation a : kActivations) {
        const OpResult all =
            results_of([a](auto& v) { return activate(v[0], a); }, {numbers({5}, {1000, -1000, nan, 1e20, -1e20})},
                       Tensor::full({5}, 1, DType::f64), dtype, device);
        const std::vector<double> values = all.y.to(DType::f64).values<double>(),
                                  slopes = all.grads[0].to(DType::f64).values<double>();
        const bool saturates = a == Activation::tanh || a == Activation::sigmoid || a == Activation::relu6;
        const bool overflows = a == Activation::exp;
        const double infinity = std::numeric_limits<double>::infinity();
        const double most = overflows                ? infinity
                            : a == Activation::relu6 ? 6.0
                            : saturates              ? 1.0
                                                     : Tensor::full({}, 1000, dtype).item();
        EXPECT_EQ(values[0], most) << name(a);
        EXPECT_EQ(values[1], a == Activation::tanh ? -1.0 : 0.0) << name(a);
        EXPECT_TRUE(std::isnan(values[2])) << name(a);
        for (const int far : {0, 3}) {
          EXPECT_EQ(slopes[far], overflows ? infinity : saturates ? 0.0 : 1.0) << name(a);
          EXPECT_EQ(slopes[far + 1], 0.0) << name(a);
        }
      }
}

// An element gets the same bits in a whole vector of a loop, in the loop's remainder, and as the only element of x.
TEST(Activation, EveryPlaceOfALoopGivesTheSameBits) {
  const Tensor x = randn({1000}, 5, 3).to(DType::f32);
  for (Activation a : kActivations) {
    Tape tape;
    const Tensor all = activate(tape.constant(x), a).value();
    for (std::int64_t i : {0, 1, 15, 16, 500, 992, 998, 999}) {
      const Tensor one = activate(tape.constant(x.slice(i, i + 1).clone()), a).value();
      EXPECT_EQ(one.data<float>()[0], all.data<float>()[i]) << name(a) << " " << i;
    }
  }
}

}  // namespace
}  // namespace foldgrad::testing
