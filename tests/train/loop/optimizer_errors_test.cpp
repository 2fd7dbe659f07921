// What optimizers refuse, and that they have changed nothing then.
#include <limits>

#include "tests/harness/compare.h"
#include "train/loop/optimizer/optimizer.h"

namespace foldgrad::testing {
namespace {

Parameter parameter(const std::string& name, DType dtype = DType::f32, Shape shape = {2}) {
  return {name, Tensor::full(shape, 1, dtype), Tensor::full(shape, 1, dtype), true};
}

std::string refusal(const Optimizer::Rule& rule, std::vector<ParameterGroup> groups) {
  return message_of([&] { Optimizer(rule, std::move(groups)); });
}

TEST(OptimizerErrors, Settings) {
  Parameter p = parameter("w");
  const auto groups = [&](double weight_decay = 0, double lr_scale = 1) {
    return std::vector<ParameterGroup>{{{&p}, weight_decay, lr_scale}};
  };
  EXPECT_EQ(refusal(Adam{1}, groups()), "adam: beta1 must be at least 0 and below 1, got 1");
  EXPECT_EQ(refusal(AdamW{0.9, -0.5}, groups()), "adamw: beta2 must be at least 0 and below 1, got -0.5");
  EXPECT_EQ(refusal(Adam{.eps = 0}, groups()), "adam: eps must be positive, got 0");
  EXPECT_EQ(refusal(Sgd{1.5}, groups()), "sgd: momentum must be at least 0 and below 1, got 1.5");
  EXPECT_EQ(refusal(Sgd{.nesterov = true}, groups()), "sgd: nesterov needs a positive momentum, got 0");
  EXPECT_EQ(refusal(Sgd{}, groups(-1)), "sgd: weight_decay must be at least 0, got -1");
  EXPECT_EQ(refusal(Sgd{}, groups(0, -2)), "sgd: lr_scale must be at least 0, got -2");
}

TEST(OptimizerErrors, Parameters) {
  Parameter w = parameter("w"), same = parameter("w"), half = parameter("h", DType::bf16),
            wide = parameter("d", DType::f64);
  EXPECT_EQ(refusal(Sgd{}, {}), "sgd: there are no parameters");
  EXPECT_EQ(refusal(Sgd{}, {{{&w}}, {{&same}}}), "sgd: two parameters are called w");
  EXPECT_EQ(refusal(Adam{}, {{{&half}}}),
            "adam: h must be f32 or f64, got bf16 [2] on cpu; for training in bf16, keep it in f32 and cast it in the "
            "forward");
  EXPECT_EQ(refusal(Adam{}, {{{&w, &wide}}}),
            "adam: parameters must have one dtype and device: w is f32 [2] on cpu, d is f64 [2] on cpu");
}

TEST(OptimizerErrors, StepsLeaveEverythingAsItWas) {
  Parameter w = parameter("w"), b = parameter("b");
  Optimizer optimizer(Adam{}, {{{&w, &b}}});
  EXPECT_EQ(message_of([&] { optimizer.step(-1); }), "adam: lr must be finite and at least 0, got -1");
  EXPECT_EQ(message_of([&] { optimizer.step(std::numeric_limits<double>::quiet_NaN()); }),
            "adam: lr must be finite and at least 0, got nan");
  EXPECT_EQ(message_of([&] { optimizer.step(1, Tensor::full({1}, 1, DType::f64)); }),
            "adam: gradient_scale must be f64 [] on cpu, to go with the first parameter, which is f32 [2] on cpu, got "
            "f64 [1] on cpu");
  b.zero_grad();
  EXPECT_EQ(message_of([&] { optimizer.step(1); }),
            "adam: b has no gradient; leave out of the optimizer what the loss does not depend on");
  b = parameter("b");
  b.grad = Tensor::zeros({3}, DType::f32);
  EXPECT_EQ(message_of([&] { optimizer.step(1); }),
            "adam: the gradient must be f32 [2] on cpu, to go with b, which is f32 [2] on cpu, got f32 [3] on cpu");
  b = parameter("b", DType::f32, {3});
  EXPECT_EQ(message_of([&] { optimizer.step(1); }),
            "adam: b must be f32 [2] on cpu, to go with its first moment, which is f32 [2] on cpu, got f32 [3] on cpu");
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
            "sgd: the saved state has momentum.v, for which there is no place here");
  EXPECT_EQ(refusal_of({{"step", Tensor::of<std::int64_t>({}, {-1})}, {"momentum.w", m}}),
            "sgd: step of the saved state must be at least 0, got -1");
  EXPECT_EQ(optimizer.steps(), 1);
  EXPECT_EQ(optimizer.state().at("momentum.w").values<float>(), (std::vector<float>{1, 1}));
}

}  // namespace
}  // namespace foldgrad::testing
