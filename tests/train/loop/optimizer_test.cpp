#include "train/loop/optimizer/optimizer.h"

#include <cmath>
#include <deque>

#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

// Parameters p0, p1, ... with gradients. The deque never moves them, since optimizers keep pointers to them.
struct Model {
  std::deque<Parameter> parameters;

  void add(const Tensor& value, const Tensor& grad) {
    parameters.push_back({"p" + std::to_string(parameters.size()), value, grad, true});
  }
  std::vector<Parameter*> all() {
    std::vector<Parameter*> pointers;
    for (Parameter& p : parameters) pointers.push_back(&p);
    return pointers;
  }
};

Tensor on(Device device, DType dtype, const Tensor& t) { return t.to(dtype).to(device); }

constexpr int kMoreThanALaunchTakes = 520;

// Makes random parameters with 0, 1 or 2 pieces; kernels work on pieces of up to 4096 elements. In two of three
// parameters, the value or the gradient begins at the second element of its memory, so it is not aligned to 16 bytes.
Model random_model(Device device, DType dtype, int tensors = 44) {
  Model model;
  for (int k = 0; k < tensors; ++k) {
    const std::int64_t size = k == 3 ? 0 : k == 5 ? 4096 + 37 : k == 7 ? 2 * 4096 : 1 + k % 7;
    const auto numbers = [&](bool inside, int seed) {
      return on(device, dtype, randn({size + inside}, unsigned(seed))).slice(inside, size + inside);
    };
    model.add(numbers(k % 3 == 1, 2 * k), numbers(k % 3 == 2, 2 * k + 1));
  }
  return model;
}

TEST(Optimizer, ZeroGradForgetsTheGradientsOfAllGroups) {
  Model model = random_model(Device::cpu, DType::f32, 4);
  const std::vector<Parameter*> all = model.all();
  Optimizer optimizer(AdamW{}, {{.parameters = {all[0], all[1]}}, {.parameters = {all[2], all[3]}}});
  optimizer.zero_grad();
  for (const Parameter* p : all) EXPECT_FALSE(p->has_grad) << p->name;
}

// --- Numbers from PyTorch 2.15: three steps in f64 from p = (1, -2, 0.5). In step t = 1, 2, 3 the gradient is (0.5 t,
// -0.25, 0.1 t t) and lr is 0.1, 0.05, 0.02. repr(p.detach().tolist()) printed the numbers.

void expect_three_steps(const Optimizer::Rule& rule, double weight_decay, const std::vector<double>& want) {
  for (Device device : devices()) {
    Model model;
    model.add(Tensor::of<double>({3}, {1, -2, 0.5}, device), {});
    Optimizer optimizer(rule, {{model.all(), weight_decay}});
    for (int t = 1; t <= 3; ++t) {
      model.parameters[0].grad = Tensor::of<double>({3}, {0.5 * t, -0.25, 0.1 * t * t}, device);
      optimizer.step(std::vector{0.1, 0.05, 0.02}[t - 1]);
    }
    EXPECT_EQ(optimizer.steps(), 3);
    EXPECT_TRUE(close(model.parameters[0].value, Tensor::of<double>({3}, want), 1e-15));
  }
}

// torch.optim.AdamW(betas=(0.9, 0.98), eps=1e-3, weight_decay=0.1)
TEST(Optimizer, ADAM_1_ADAM_2_ADAM_4_AdamWIsPyTorchs) {
  expect_three_steps(AdamW{0.9, 0.98, 1e-3}, 0.1, {0.8169748778047643, -1.7976329075697213, 0.33228244834894993});
}

// torch.optim.SGD() without options, with momentum=0.9 and weight_decay=0.01, and the same with nesterov=True.
TEST(Optimizer, SGD_1_SGD_2_SGD_3_SGD_4_SgdIsPyTorchs) {
  expect_three_steps(Sgd{}, 0, {0.87, -1.9575, 0.452});
  expect_three_steps(Sgd{0.9}, 0.01, {0.8189675649, -1.9327448873, 0.43744823395});
  expect_three_steps(Sgd{0.9, true}, 0.01, {0.7055060497191, -1.8936348233807, 0.3948865946480499});
}

// --- References: optimizers of a single scalar in long double, written like the code of fairseq and PyTorch. They
// apply decay first, then the step.

using Real = long double;

struct ScalarAdam {
  bool fairseq;
  Real beta1, beta2, eps, m = 0, v = 0;
  int t = 0;

  Real step(Real p, Real g, Real lr, Real wd) {
    ++t;
    p -= wd * lr * p;
    m = m * beta1 + g * (1 - beta1);
    v = v * beta2 + g * g * (1 - beta2);
    const Real c1 = 1 - std::pow(beta1, Real(t)), c2 = 1 - std::pow(beta2, Real(t));
    if (fairseq) return p - lr * std::sqrt(c2) / c1 * (m / (std::sqrt(v) + eps));
    return p - lr * (m / c1) / (std::sqrt(v / c2) + eps);
  }
};

struct ScalarSgd {
  Real momentum;
  bool nesterov;
  Real buffer = 0;

  Real step(Real p, Real g, Real lr, Real wd) {
    g += wd * p;
    buffer = momentum * buffer + g;
    return p - lr * (nesterov ? g + momentum * buffer : buffer);
  }
};

// Compares three steps of two groups with the scalar reference. Gradients and rates change in each step, and a gradient
// scale is given.
template <class Scalar>
void expect_model(const Optimizer::Rule& rule, const Scalar& fresh, Device device, DType dtype) {
  SCOPED_TRACE(fmt::format("{} on {}", name(dtype), name(device)));
  Model model = random_model(device, dtype);
  std::vector<Parameter*> decayed = model.all(), others(decayed.begin() + 40, decayed.end());
  decayed.resize(40);
  Optimizer optimizer(rule, {{decayed, 0.25}, {others, 0.125}});
  std::vector<std::vector<Scalar>> scalars;
  std::vector<std::vector<double>> want;
  for (const Parameter& p : model.parameters) {
    scalars.emplace_back(p.value.size(), fresh);
    want.push_back(p.value.to(DType::f64).values<double>());
  }
  for (int t = 0; t < 3; ++t) {
    const double lr = 0.1 / (t + 1);
    for (std::size_t k = 0; k < want.size(); ++k) {
      Parameter& p = model.parameters[k];
      p.grad = on(device, dtype, randn(p.value.shape(), unsigned(1000 * t + k)));
      const std::vector<double> g = p.grad.to(DType::f64).values<double>();
      for (std::size_t i = 0; i < g.size(); ++i)
        want[k][i] = double(scalars[k][i].step(want[k][i], Real(g[i]) * 0.75, lr, k < 40 ? 0.25 : 0.125));
    }
    optimizer.step(lr, Tensor::full({}, 0.75, DType::f64, device));
  }
  // Each of the three steps rounds about ten terms, none larger than 1 + |p|.
  const double tolerance = dtype == DType::f32 ? 30 * 6e-8 : 30 * 1.1e-16;
  for (std::size_t k = 0; k < want.size(); ++k)
    ASSERT_TRUE(close(model.parameters[k].value, Tensor::of({std::int64_t(want[k].size())}, want[k]), tolerance)) << k;
}

TEST(Optimizer, ADAM_3_EqualsScalarModels) {
  for (Device device : devices())
    for (DType dtype : {DType::f32, DType::f64}) {
      expect_model(Adam{0.9, 0.98, 1e-2}, ScalarAdam{true, 0.9L, 0.98L, 1e-2L}, device, dtype);
      expect_model(AdamW{0.8, 0.99, 1e-2}, ScalarAdam{false, 0.8L, 0.99L, 1e-2L}, device, dtype);
      expect_model(Sgd{}, ScalarSgd{0, false}, device, dtype);
      expect_model(Sgd{0.9}, ScalarSgd{0.9L, false}, device, dtype);
      expect_model(Sgd{0.1}, ScalarSgd{0.1L, false}, device, dtype);
      expect_model(Sgd{0.9, true}, ScalarSgd{0.9L, true}, device, dtype);
    }
}

// A group with a factor of 0.3 has the bits of a group whose learning rates are multiplied by 0.3, even with weight
// decay.
TEST(Optimizer, TheFactorOfAGroupIsOneOfItsLearningRateAlone) {
  for (Device device : devices())
    for (const Optimizer::Rule& rule : {Optimizer::Rule(Adam{}), Optimizer::Rule(AdamW{}), Optimizer::Rule(Sgd{0.9})}) {
      Model both = random_model(device, DType::f32, 9), fast = random_model(device, DType::f32, 9),
            slow = random_model(device, DType::f32, 9);
      std::vector<Parameter*> first = both.all(), rest(first.begin() + 4, first.end());
      first.resize(4);
      Optimizer in_groups(rule, {{first, 0.25, 0.3}, {rest, 0.25}}), at_once(rule, {{fast.all(), 0.25}}),
          slowly(rule, {{slow.all(), 0.25}});
      for (const double lr : {0.1, 0.07, 0.01}) in_groups.step(lr), at_once.step(lr), slowly.step(lr * 0.3);
      for (std::size_t k = 0; k < 9; ++k)
        EXPECT_TRUE(identical(both.parameters[k].value, (k < 4 ? slow : fast).parameters[k].value)) << k;
      EXPECT_EQ(in_groups.parameters(), both.all());
    }
}

// The emulation evaluates the CPU's formulas with the same rounding. On a GPU, nvcc fuses products and sums.
TEST(Optimizer, DevicesAgree) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  for (const Optimizer::Rule& rule : {Optimizer::Rule(Adam{}), Optimizer::Rule(AdamW{}), Optimizer::Rule(Sgd{0.9})}) {
    Model host = random_model(Device::cpu, DType::f32, kMoreThanALaunchTakes),
          device = random_model(Device::cuda, DType::f32, kMoreThanALaunchTakes);
    Optimizer on_host(rule, {{host.all(), 0.1}}), on_device(rule, {{device.all(), 0.1}});
    for (int t = 0; t < 2; ++t) on_host.step(0.01), on_device.step(0.01);
    for (std::size_t k = 0; k < host.parameters.size(); ++k) {
      const Tensor got = device.parameters[k].value.to(Device::cpu), want = host.parameters[k].value;
      ASSERT_TRUE(cuda_is_emulated() ? identical(got, want) : close(got, want, 1e-6)) << k;
    }
  }
}

// round_values() writes the bf16 copies, and every step of the optimizer updates them: in packs, and element by element
// at the end of a tensor. After any other change, round_values() must be called again.
TEST(Optimizer, WritesRoundedValues) {
  for (Device device : devices())
    for (const Optimizer::Rule& rule :
         {Optimizer::Rule(Adam{}), Optimizer::Rule(AdamW{}), Optimizer::Rule(Sgd{0.9, true})}) {
      const int tensors = std::holds_alternative<Adam>(rule) ? kMoreThanALaunchTakes : 44;
      Model model = random_model(device, DType::f32, tensors), plain = random_model(device, DType::f32, tensors);
      Optimizer optimizer(rule, {{model.all(), 0.1}}), without(rule, {{plain.all(), 0.1}});
      round_values(model.all());
      const auto expect_rounded = [&] {
        for (const Parameter& p : model.parameters)
          ASSERT_TRUE(identical(p.rounded, p.value.to(DType::bf16))) << name(device) << " " << p.name;
      };
      expect_rounded();
      for (int t = 0; t < 2; ++t) optimizer.step(0.01), without.step(0.01);
      expect_rounded();
      for (std::size_t k = 0; k < model.parameters.size(); ++k)
        ASSERT_TRUE(identical(model.parameters[k].value, plain.parameters[k].value)) << k;
      for (Parameter& p : model.parameters) p.value.copy_from(Tensor::full(p.value.shape(), 0.3, DType::f32, device));
      round_values(model.all());
      expect_rounded();
    }
}

TEST(Optimizer, RoundsValuesOfF32) {
  Model model;
  model.add(Tensor::zeros({2}, DType::f64), Tensor::zeros({2}, DType::f64));
  EXPECT_EQ(message_of([&] { round_values(model.all()); }),
            "round_values: p0 must be f32 [2] on cpu (p0 is f64 [2] on cpu), got f64 [2] on cpu");
}

// The decay and the step are 2e-8 each. The largest f32 below 1 is 6e-8 away, so neither changes a 1, but their sum
// does.
TEST(Optimizer, ADAM_4_SmallDecayIsNotLost) {
  for (Device device : devices()) {
    Model model;
    model.add(Tensor::full({1}, 1, DType::f32, device), Tensor::full({1}, 1, DType::f32, device));
    Optimizer(AdamW{}, {{model.all(), 1}}).step(2e-8);
    EXPECT_EQ(model.parameters[0].value.values<float>()[0], std::nextafter(1.0f, 0.0f));
  }
}

// In f32, 1 - 0.999f has a relative error of 1.3e-5, about a hundred units in the last place.
TEST(Optimizer, ADAM_1_ADAM_2_MomentsAreExactInF32) {
  for (Device device : devices()) {
    Model model;
    model.add(Tensor::full({1}, 1, DType::f32, device), Tensor::full({1}, 1, DType::f32, device));
    Optimizer optimizer(AdamW{}, {{model.all()}});
    optimizer.step(0.1);
    EXPECT_FLOAT_EQ(optimizer.state().at("exp_avg.p0").values<float>()[0], 0.1f);
    EXPECT_FLOAT_EQ(optimizer.state().at("exp_avg_sq.p0").values<float>()[0], 0.001f);
  }
}

TEST(Optimizer, StateIsNamedAfterParameters) {
  Model model = random_model(Device::cpu, DType::f32, 1);
  const auto keys = [&](const Optimizer::Rule& rule) {
    std::string keys;
    for (const auto& [key, tensor] : Optimizer(rule, {{model.all()}}).state()) keys += key + " ";
    return keys;
  };
  EXPECT_EQ(keys(Adam{}), "exp_avg.p0 exp_avg_sq.p0 step ");
  EXPECT_EQ(keys(Sgd{0.9}), "momentum.p0 step ");
  EXPECT_EQ(keys(Sgd{}), "step ");
}

}  // namespace
}  // namespace foldgrad::testing
