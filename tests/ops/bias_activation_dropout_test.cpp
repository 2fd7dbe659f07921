#include "ops/activation/bias_activation_dropout.h"

#include "ops/dropout/dropout.h"
#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

constexpr Random kRandom{1, 2, 3};

OpCase drop_case(Activation activation, std::int64_t rows, std::int64_t columns, double p, bool large = false) {
  // The sum must stay away from relu's kink: x is, by 0.1, and the bias is smaller.
  return {.label = fmt::format("{} of {} rows of {}, p {}", name(activation), rows, columns, p),
          .operands = {randn_off_zero({rows, columns}, 1, 0.1), randn({columns}, 2, 0.02)},
          .f = [=](const std::vector<Var>& v) { return bias_activation_dropout(v[0], v[1], activation, p, kRandom); },
          .large = large};
}
std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  for (Activation a : kActivations) all.push_back(drop_case(a, 3, 3, 0.4));
  for (auto [rows, columns] : {std::pair{0, 3}, {1, 31}, {2, 33}, {40, 3}, {3, 16}})
    all.push_back(drop_case(Activation::gelu, rows, columns, 0.25));
  all.push_back(drop_case(Activation::relu, 2, 8, 0));
  all.push_back(drop_case(Activation::relu, 70, 130, 0.1, true));
  return all;
}
Var zeros(Tape& t, const Shape& shape) { return t.constant(Tensor::zeros(shape, DType::f32)); }

const RegisterOp kSpec({
    .name = "bias_activation_dropout",
    .cases = cases(),
    .errors = {{"bias_activation_dropout: bias must be f32 [8] on cpu, to go with x, which is f32 [2, 8] on cpu, got "
                "f32 [4] on cpu",
                [](Tape& t) {
                  bias_activation_dropout(zeros(t, {2, 8}), zeros(t, {4}), Activation::relu, 0.5, kRandom);
                }},
               {"bias_activation_dropout: x must be f32, f64 or bf16 with at least 1 axes, got f32 [] on cpu",
                [](Tape& t) { bias_activation_dropout(zeros(t, {}), zeros(t, {}), Activation::relu, 0.5, kRandom); }},
               {"bias_activation_dropout: p must be in [0, 1), got 1",
                [](Tape& t) { bias_activation_dropout(zeros(t, {2}), zeros(t, {2}), Activation::relu, 1, kRandom); }}},
    .bf16_roundoffs = 16,  // sums of 70 rows
});

struct Results {
  Tensor y, dx, dbias;
};
template <class F>
Results run(const F& f, std::int64_t rows, std::int64_t columns, DType dtype, Device device) {
  Tape tape;
  const Var x = tape.variable(randn({rows, columns}, 1).to(dtype).to(device)),
            bias = tape.variable(randn({columns}, 2).to(dtype).to(device));
  const Var y = f(x, bias);
  tape.backward(y, randn({rows, columns}, 3).to(dtype).to(device));
  return {y.value().to(Device::cpu), tape.grad(x).to(Device::cpu), tape.grad(bias).to(Device::cpu)};
}

// On the CPU, where dropout and bias_activation go through rows as this operation does, dbias has the same bits, too.
TEST(BiasActivationDropout, ACT_9_HasTheBitsOfTwoOperations) {
  for (Device device : devices())
    for (DType dtype : {DType::f32, DType::f64, DType::bf16})
      for (Activation a : kActivations)
        for (auto [rows, columns] : {std::pair{1, 1}, {5, 33}, {9, 64}, {20, 264}}) {
          const Results want =
              run([&](const Var& x, const Var& b) { return dropout(bias_activation(x, b, a), 0.3, kRandom); }, rows,
                  columns, dtype, device);
          const Results got =
              run([&](const Var& x, const Var& b) { return bias_activation_dropout(x, b, a, 0.3, kRandom); }, rows,
                  columns, dtype, device);
          const std::string what =
              fmt::format("{} of {} on {}, [{}, {}]", name(a), name(dtype), name(device), rows, columns);
          EXPECT_TRUE(identical(got.y, want.y)) << what;
          EXPECT_TRUE(identical(got.dx, want.dx)) << what;
          EXPECT_TRUE(identical(got.dbias, want.dbias)) << what;
        }
}

}  // namespace
}  // namespace foldgrad::testing
