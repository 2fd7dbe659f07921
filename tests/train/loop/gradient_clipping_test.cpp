// Tests clipping of gradients, and inputs that optimizers reject.
#include "train/loop/optimizer/gradient_clipping.h"

#include <cmath>
#include <deque>
#include <limits>

#include "tests/harness/op_spec.h"
#include "train/loop/optimizer/optimizer.h"

namespace foldgrad::testing {
namespace {

Parameter with_gradient(const Tensor& grad, const std::string& name = "w") {
  return {name, Tensor::zeros(grad.shape(), grad.dtype(), grad.device()), grad, true};
}

// Makes 520 random gradients: more than one launch takes, and enough work for several threads. They have 0, 1 or 2
// pieces of up to 4096 elements.
std::deque<Parameter> random_gradients(Device device, DType dtype) {
  std::deque<Parameter> parameters;
  for (int k = 0; k < 520; ++k) {
    const std::int64_t size = k == 0 ? 0 : k == 2 ? 2 * 4096 : k == 515 ? 4096 + 300 : 1 + k % 70;
    parameters.push_back(with_gradient(randn({size}, unsigned(k)).to(dtype).to(device), "p" + std::to_string(k)));
  }
  return parameters;
}

TEST(GradientClipping, CLIP_1_NormOfManyTensors) {
  for (Device device : devices())
    for (DType dtype : {DType::f32, DType::f64}) {
      std::deque<Parameter> parameters = random_gradients(device, dtype);
      std::vector<Parameter*> all;
      long double sum = 0;
      for (Parameter& p : parameters) {
        all.push_back(&p);
        for (double g : p.grad.to(DType::f64).values<double>()) sum += (long double)(g)*g;
      }
      const double norm = clip_by_norm(all, 1).norm.item();
      EXPECT_NEAR(norm / double(std::sqrt(sum)), 1, 1e-14);  // up to 4096 squares are summed in up to 256 chains
    }
}

TEST(GradientClipping, CLIP_2_SmallGradientsStay) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (Device device : devices()) {
    Parameter w = with_gradient(Tensor::of<float>({2}, {3, 4}, device));
    EXPECT_EQ(clip_by_norm({&w}, 6).factor.item(), 1);
    EXPECT_EQ(clip_by_norm({&w}, kInfinity).factor.item(), 1);
    EXPECT_DOUBLE_EQ(clip_by_norm({&w}, 4).factor.item(), 4 / 5.000001);
    w.grad.zero();
    EXPECT_EQ(clip_by_norm({&w}, 1).factor.item(), 1);
    EXPECT_EQ(clip_by_norm({&w}, 1).norm.item(), 0);
  }
}

// Neither NaN nor infinity may look like a gradient that needs no clipping.
TEST(GradientClipping, CLIP_2_NotANumberShows) {
  for (Device device : devices()) {
    Parameter w = with_gradient(Tensor::of<float>({2}, {1, NAN}, device));
    EXPECT_TRUE(std::isnan(clip_by_norm({&w}, 1).norm.item()));
    EXPECT_TRUE(std::isnan(clip_by_norm({&w}, 1).factor.item()));
    w = with_gradient(Tensor::of<float>({2}, {1, INFINITY}, device));
    const GradientClip clip = clip_by_norm({&w}, 1);
    EXPECT_EQ(clip.factor.item(), 0);
    Optimizer(Sgd{}, {{{&w}}}).step(1, clip.factor);
    EXPECT_TRUE(std::isnan(w.value.values<float>()[1]));
  }
}

// The squares of 3e30 and 4e30 overflow f32.
TEST(GradientClipping, CLIP_1_LargeGradientsDoNotOverflow) {
  for (Device device : devices()) {
    Parameter w = with_gradient(Tensor::of<float>({2}, {3e30f, 4e30f}, device));
    EXPECT_NEAR(clip_by_norm({&w}, 1).norm.item() / 5e30, 1, 1e-6);
  }
}

// With clipping = 1/2, the rows of w have the norms 5, 0 and 5, so the limits are 2.5, 0.0005 and 2.5. The norms of
// their gradients are 10, 0.005 and 2.5. The first two exceed their limits and get the factors 1/4 and 1/10. The vector
// b is a single unit of norm 2, so its limit is 1. The gradient of b has the norm 4 and gets the factor 1/4.
TEST(GradientClipping, AGC_1_AGC_2_WorkedByHand) {
  for (Device device : devices())
    for (DType dtype : {DType::f32, DType::f64}) {
      const auto tensor = [&](Shape shape, const std::vector<double>& values) {
        return Tensor::of(std::move(shape), values).to(dtype).to(device);
      };
      Parameter w{"w", tensor({3, 1, 2}, {3, 4, 0, 0, -4, 3}), tensor({3, 1, 2}, {6, -8, 3e-3, 4e-3, 2.5, 0}), true};
      Parameter b{"b", tensor({4}, {1, 1, -1, 1}), tensor({4}, {4, 0, 0, 0}), true};
      Parameter s{"s", tensor({}, {-2}), tensor({}, {0.5}), true};
      clip_adaptively({&w, &b, &s}, 0.5);
      const double tolerance = dtype == DType::f32 ? 2e-7 : 4e-16;
      EXPECT_TRUE(close(w.grad, tensor({3, 1, 2}, {1.5, -2, 3e-4, 4e-4, 2.5, 0}).to(DType::f64), tolerance));
      EXPECT_TRUE(close(b.grad, tensor({4}, {1, 0, 0, 0}), tolerance));
      EXPECT_EQ(s.grad.item(), 0.5);
      EXPECT_EQ(w.value.to(DType::f64).values<double>(), (std::vector<double>{3, 4, 0, 0, -4, 3}));
    }
}

// For weights of 0, the limit is 1e-4 * 1e-3 = 1e-7. The first row's gradient has the norm 5e-6 and is multiplied by
// 1e-7 / 5e-6. The second row's gradient has the norm 5e-7. The divisor is at least 1e-6, so this row is multiplied by
// 1e-7 / 1e-6.
TEST(GradientClipping, AGC_2_DividesByAMillionthAtLeast) {
  for (Device device : devices()) {
    Parameter w{"w", Tensor::zeros({2, 2}, DType::f64, device),
                Tensor::of<double>({2, 2}, {3e-6, 4e-6, 3e-7, 4e-7}, device), true};
    clip_adaptively({&w}, 1e-4);
    const std::vector<double> got = w.grad.values<double>(), want{6e-8, 8e-8, 3e-8, 4e-8};
    for (int i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(got[i], want[i]) << name(device);
  }
}

// A row has 700 elements, more than the 256 threads of a block. On the CPU, threads share the 9 rows. The reference
// sums in long double.
TEST(GradientClipping, AGC_1_AGC_2_LongRows) {
  for (Device device : devices()) {
    const Tensor value = randn({9, 700}, 1), grad = randn({9, 700}, 2);
    Parameter w{"w", value.to(device), grad.to(device), true};
    clip_adaptively({&w}, 0.01);
    const std::vector<double> v = value.values<double>(), g = grad.values<double>();
    std::vector<double> want = g;
    for (int r = 0; r < 9; ++r) {
      long double vv = 0, gg = 0;
      for (int i = 700 * r; i < 700 * (r + 1); ++i) vv += (long double)(v[i]) * v[i], gg += (long double)(g[i]) * g[i];
      for (int i = 700 * r; i < 700 * (r + 1); ++i) want[i] = double(g[i] * 0.01L * std::sqrt(vv) / std::sqrt(gg));
    }
    EXPECT_TRUE(close(w.grad, Tensor::of({9, 700}, want), 1e-15));
  }
}

TEST(GradientClipping, Errors) {
  Parameter w = with_gradient(Tensor::zeros({2}, DType::f32)), d = with_gradient(Tensor::zeros({2}, DType::f64), "d"),
            h = with_gradient(Tensor::zeros({2}, DType::bf16), "h"), none{"n", Tensor::zeros({2}, DType::f32)};
  EXPECT_EQ(message_of([] { clip_by_norm({}, 1); }), "clip_by_norm: there are no parameters");
  EXPECT_EQ(message_of([&] { clip_by_norm({&w}, 0); }), "clip_by_norm: max_norm must be positive, got 0");
  EXPECT_EQ(message_of([&] { clip_by_norm({&h}, 1); }), "clip_by_norm: h must be f32 or f64, got bf16 [2] on cpu");
  const std::vector<Parameter*> both{&w, &d};
  EXPECT_EQ(message_of([&] { clip_adaptively(both, 1); }),
            "clip_adaptively: d must be f32 [2] on cpu (w is f32 [2] on cpu), got f64 [2] on cpu");
  EXPECT_EQ(message_of([&] { clip_adaptively({&w, &none}, 1); }), "clip_adaptively: n has no gradient");
  for (const double clipping : {-1, 0})
    EXPECT_EQ(message_of([&] { clip_adaptively({&w}, clipping); }),
              fmt::format("clip_adaptively: clipping must be positive, got {}", clipping));
  w.grad = Tensor::zeros({3}, DType::f32);
  EXPECT_EQ(message_of([&] { clip_by_norm({&w}, 1); }),
            "clip_by_norm: the gradient must be f32 [2] on cpu (w is f32 [2] on cpu), got f32 [3] on cpu");
}

Parameter parameter(const std::string& name, DType dtype = DType::f32, Shape shape = {2}) {
  return {name, Tensor::full(shape, 1, dtype), Tensor::full(shape, 1, dtype), true};
}

std::string refusal(const Optimizer::Rule& rule, std::vector<ParameterGroup> groups) {
  return message_of([&] { Optimizer(rule, std::move(groups)); });
}

TEST(OptimizerErrors, Settings) {
  Parameter p = parameter("w");
  const auto groups = [&](double weight_decay = 0) { return std::vector<ParameterGroup>{{{&p}, weight_decay}}; };
  EXPECT_EQ(refusal(Adam{1}, groups()), "adam: beta1 must be at least 0 and below 1, got 1");
  EXPECT_EQ(refusal(AdamW{0.9, -0.5}, groups()), "adamw: beta2 must be at least 0 and below 1, got -0.5");
  EXPECT_EQ(refusal(Adam{.eps = 0}, groups()), "adam: eps must be positive, got 0");
  EXPECT_EQ(refusal(Sgd{1.5}, groups()), "sgd: momentum must be at least 0 and below 1, got 1.5");
  EXPECT_EQ(refusal(Sgd{.nesterov = true}, groups()), "sgd: nesterov needs a positive momentum, got 0");
  EXPECT_EQ(refusal(Sgd{}, groups(-1)), "sgd: weight_decay must be at least 0, got -1");
  EXPECT_EQ(refusal(Sgd{}, {{{&p}, 0, -1}}), "sgd: rate must be at least 0, got -1");
  EXPECT_EQ(refusal(Sgd{}, {{{&p}, 0, std::numeric_limits<double>::infinity()}}),
            "sgd: rate must be at least 0, got inf");
}

TEST(OptimizerErrors, Parameters) {
  Parameter w = parameter("w"), same = parameter("w"), half = parameter("h", DType::bf16),
            wide = parameter("d", DType::f64);
  EXPECT_EQ(refusal(Sgd{}, {}), "sgd: there are no parameters");
  EXPECT_EQ(refusal(Sgd{}, {{{&w}}, {{&same}}}), "sgd: two parameters are named w");
  EXPECT_EQ(refusal(Adam{}, {{{&half}}}),
            "adam: h must be f32 or f64, got bf16 [2] on cpu; for training in bf16, keep it in f32 and cast it in the "
            "forward pass");
  EXPECT_EQ(refusal(Adam{}, {{{&w, &wide}}}),
            "adam: parameters must have the same dtype and device: w is f32 [2] on cpu, d is f64 [2] on cpu");
}

TEST(OptimizerErrors, StepsLeaveEverythingAsItWas) {
  Parameter w = parameter("w"), b = parameter("b");
  Optimizer optimizer(Adam{}, {{{&w, &b}}});
  EXPECT_EQ(message_of([&] { optimizer.step(-1); }), "adam: lr must be finite and at least 0, got -1");
  EXPECT_EQ(message_of([&] { optimizer.step(std::numeric_limits<double>::quiet_NaN()); }),
            "adam: lr must be finite and at least 0, got nan");
  EXPECT_EQ(message_of([&] { optimizer.step(1, Tensor::full({1}, 1, DType::f64)); }),
            "adam: gradient_scale must be f64 [] on cpu (the first parameter is f32 [2] on cpu), got f64 [1] on cpu");
  b.zero_grad();
  EXPECT_EQ(message_of([&] { optimizer.step(1); }),
            "adam: b has no gradient; give the optimizer only parameters that the loss depends on");
  b = parameter("b");
  b.grad = Tensor::zeros({3}, DType::f32);
  EXPECT_EQ(message_of([&] { optimizer.step(1); }),
            "adam: the gradient must be f32 [2] on cpu (b is f32 [2] on cpu), got f32 [3] on cpu");
  b = parameter("b", DType::f32, {3});
  EXPECT_EQ(message_of([&] { optimizer.step(1); }),
            "adam: b must be f32 [2] on cpu (its first moment is f32 [2] on cpu), got f32 [3] on cpu");
  EXPECT_EQ(w.value.values<float>(), (std::vector<float>{1, 1}));
  EXPECT_EQ(optimizer.steps(), 0);
}

TEST(OptimizerErrors, SavedStates) {
  Parameter w = parameter("w");
  Optimizer optimizer(Sgd{0.9}, {{{&w}}});
  optimizer.step(1);
  const auto refusal_of = [&](const NamedTensors& state) { return message_of([&] { optimizer.load_state(state); }); };
  const Tensor step = Tensor::of<std::int64_t>({}, {7}), m = Tensor::zeros({2}, DType::f32);
  EXPECT_EQ(refusal_of({{"step", step}}), "sgd: the saved state has no momentum.w");
  EXPECT_EQ(refusal_of({{"step", step}, {"momentum.w", Tensor::zeros({3}, DType::f32)}}),
            "sgd: momentum.w of the saved state must be f32 [2], got f32 [3] on cpu");
  EXPECT_EQ(refusal_of({{"step", Tensor::zeros({}, DType::f32)}, {"momentum.w", m}}),
            "sgd: step of the saved state must be i64 [], got f32 [] on cpu");
  EXPECT_EQ(refusal_of({{"step", step}, {"momentum.w", m}, {"momentum.v", m}}),
            "sgd: the saved state has momentum.v, which is not expected here");
  EXPECT_EQ(refusal_of({{"step", Tensor::of<std::int64_t>({}, {-1})}, {"momentum.w", m}}),
            "sgd: step of the saved state must be at least 0, got -1");
  EXPECT_EQ(optimizer.steps(), 1);
  EXPECT_EQ(optimizer.state().at("momentum.w").values<float>(), (std::vector<float>{1, 1}));
}

}  // namespace
}  // namespace foldgrad::testing
