// Gradients of parameters whose totals wait for others (engine/cuda/late_totals.h), against those of variables, which
// do not wait: the same bits.
#include "engine/cuda/late_totals.h"

#include "ops/activation/activation.h"
#include "ops/dropout/dropout.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/linear/linear.h"
#include "tests/harness/op_spec.h"
#ifdef FOLDGRAD_EMULATE
#include "emulation/launch_counts.h"
#endif

namespace foldgrad::testing {
namespace {

constexpr std::int64_t kWidths[] = {1, 31, 33, 8};
constexpr int kSums = 4;  // of a layer: gradients of two biases and of gamma and beta

struct Layer {
  Tensor weight;
  std::vector<Parameter> sums;  // bias, gamma, beta, bias

  Layer(std::int64_t in, std::int64_t out, unsigned seed, DType dtype, Device device)
      : weight(randn({out, in}, seed, 1 / std::sqrt(double(in))).to(dtype).to(device)) {
    for (unsigned k = 0; k < 4; ++k)
      sums.push_back({fmt::format("{}.{}", seed, k), randn({out}, seed + 1 + k, 0.5).to(dtype).to(device)});
  }
  // use: makes a Var of a parameter.
  template <class Use>
  Var operator()(const Var& x, const Use& use) {
    const Var b = use(sums[0]), gamma = use(sums[1]), beta = use(sums[2]), c = use(sums[3]);
    const Var y = linear(x, x.tape().constant(weight), b);
    return bias_activation(layer_norm(y, gamma, beta), c, Activation::tanh);
  }
};

std::vector<Layer> layers(int count, DType dtype, Device device) {
  std::vector<Layer> all;
  for (int k = 0; k < count; ++k)
    all.emplace_back(kWidths[k % 4], kWidths[(k + 1) % 4], 10 * unsigned(k), dtype, device);
  return all;
}

// Of all layers one behind the other, run `times` times on one tape, so that gradients are set and added to.
template <class Use>
void run_backward(Tape& tape, std::vector<Layer>& all, std::int64_t rows, int times, const Use& use) {
  const DType dtype = all[0].weight.dtype();
  const Device device = all[0].weight.device();
  Var x = tape.constant(randn({rows, kWidths[0]}, 1).to(dtype).to(device));
  for (int n = 0; n < times; ++n)
    for (Layer& layer : all) x = layer(x, use);
  tape.backward(x, randn(x.shape(), 2).to(dtype).to(device));
}

void expect_the_same_bits(DType dtype, Device device, std::int64_t rows, int times) {
  std::vector<Layer> all = layers(4, dtype, device);
  Tape tape, without;
  run_backward(tape, all, rows, times, [&](Parameter& p) { return tape.parameter(p); });
  std::map<const Parameter*, Var> variables;
  run_backward(without, all, rows, times,
               [&](Parameter& p) { return variables.try_emplace(&p, without.variable(p.value)).first->second; });
  for (const auto& [p, v] : variables)
    EXPECT_TRUE(identical(p->grad.to(Device::cpu), without.grad(v).to(Device::cpu)))
        << p->name << ", " << name(dtype) << ", " << rows << " rows, " << times << " times";
}

TEST(LateTotals, OfParametersHaveTheBitsOfVariables) {
  for (Device device : devices())
    for (DType dtype : {DType::f32, DType::bf16, DType::f64})
      for (std::int64_t rows : {0, 1, 37}) {
        expect_the_same_bits(dtype, device, rows, 1);
        expect_the_same_bits(dtype, device, rows, 2);
      }
}

// Whoever adds to a gradient at once must not come before its total that waits.
void expect_the_same_bits(DType dtype, Device device, const std::function<Var(const Var& h, const Var& p)>& f) {
  const auto backward = [&](const Var& p) {
    const Var h = bias_activation(p, p.tape().constant(p.value()), Activation::tanh);
    p.tape().backward(f(h, p), p.value().clone());
  };
  Parameter parameter{"p", randn({8}, 1).to(dtype).to(device)};
  Tape tape, without;
  backward(tape.parameter(parameter));
  const Var variable = without.variable(parameter.value);
  backward(variable);
  EXPECT_TRUE(identical(parameter.grad.to(Device::cpu), without.grad(variable).to(Device::cpu)))
      << name(dtype) << " on " << name(device);
}

TEST(LateTotals, OfAParameterThatIsMoreThanABias) {
  const auto operand_too = [](const Var& h, const Var& p) { return bias_activation(h, p, Activation::tanh); };
  const auto residual_too = [](const Var& h, const Var& p) { return bias_dropout_residual(h, p, p, 0, {}); };
  for (Device device : devices())
    for (DType dtype : {DType::f32, DType::bf16}) {
      expect_the_same_bits(dtype, device, operand_too);
      expect_the_same_bits(dtype, device, residual_too);
    }
}

#ifdef FOLDGRAD_EMULATE
TEST(LateTotals, TakeOneLaunchForManyCuda) {
  constexpr int kLayers = 20;
  static_assert(kSums * kLayers > LateTotalsTable::kMost && kSums * kLayers < 2 * LateTotalsTable::kMost);
  std::vector<Layer> all = layers(kLayers, DType::f32, Device::cuda);
  Tape tape;
  const emulation::LaunchCounts counts;
  run_backward(tape, all, 2, 1, [&](Parameter& p) { return tape.parameter(p); });
  EXPECT_NE(counts.table().find("\n2  late totals of columns\n"), std::string::npos) << counts.table();
}
#endif

}  // namespace
}  // namespace foldgrad::testing
