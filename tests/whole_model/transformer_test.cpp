#include "engine/memory.h"
#include "tests/harness/op_spec.h"
#include "tests/whole_model/tiny_transformer.h"

namespace foldgrad::testing {
namespace {

constexpr double kTargetTokens = 9;  // of tiny_batch that are not padding

double loss_of(TinyTransformer& model, const Batch& batch) {
  Tape tape(/*recording=*/false);
  return model.loss(tape, batch, /*step=*/1, /*label_smoothing=*/0.1).value().item();
}

void zero_grads(TinyTransformer& model) {
  for (auto& [name, p] : model.parameters()) p.zero_grad();
}

// Dropout is on: with its numbers given by the step, the loss is a smooth function of the parameters all the same.
TEST(TinyTransformer, EveryParameterAgainstCentralDifferences) {
  TinyTransformer model(DType::f64, Device::cpu, /*dropout=*/0.2);
  const Batch batch = tiny_batch(Device::cpu);
  Tape tape;
  tape.backward(model.loss(tape, batch, 1, 0.1));
  std::int64_t checked = 0;
  for (auto& [name, p] : model.parameters()) {
    ASSERT_TRUE(p.has_grad) << name;
    const Tensor want = Tensor::empty(p.value.shape(), DType::f64);
    for (std::int64_t i = 0; i < p.value.size(); ++i, ++checked) {
      constexpr double h = 3e-4;
      double& x = p.value.data<double>()[i];
      const double x0 = x;
      const auto at = [&](double step) {
        x = x0 + step;
        return loss_of(model, batch);
      };
      const double near = at(h) - at(-h), far = at(2 * h) - at(-2 * h);  // of fourth order
      x = x0;
      want.data<double>()[i] = (8 * near - far) / (12 * h);
    }
    // With h = 1e-3 the truncation was seen at 3e-7 in the embedding, which is used everywhere; it falls with h^4.
    EXPECT_TRUE(close(p.grad, want, 1e-8)) << name;
  }
  EXPECT_GT(checked, 3000);
}

// Plain gradient descent, computed on the host for every device, so that only the operations can differ.
struct Trained {
  std::vector<double> losses;
  std::map<std::string, Tensor> parameters;  // on the host
};
Trained train(Device device, int steps) {
  TinyTransformer model(DType::f64, device, /*dropout=*/0.1);
  const Batch batch = tiny_batch(device);
  Tape tape;
  Trained trained;
  for (int step = 0; step < steps; ++step) {
    const Var loss = model.loss(tape, batch, std::uint32_t(step), 0.1);
    trained.losses.push_back(loss.value().item());
    zero_grads(model);
    tape.backward(loss);
    tape.clear();
    for (auto& [name, p] : model.parameters()) {
      const Tensor value = p.value.to(Device::cpu).clone(), grad = p.grad.to(Device::cpu);
      for (std::int64_t i = 0; i < value.size(); ++i) value.data<double>()[i] -= 0.01 * grad.data<double>()[i];
      p.value.copy_from(value);
      trained.parameters[name] = value;
    }
  }
  return trained;
}

TEST(TinyTransformer, TwentyStepsOnCudaAreTheTwentyStepsOnTheCpu) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  const Trained cpu = train(Device::cpu, 20), cuda = train(Device::cuda, 20);
  for (std::size_t i = 0; i < cpu.losses.size(); ++i)
    EXPECT_LE(std::abs(cuda.losses[i] - cpu.losses[i]), 1e-10 * cpu.losses[i]) << "step " << i;
  for (const auto& [name, value] : cpu.parameters) EXPECT_TRUE(close(cuda.parameters.at(name), value, 1e-10)) << name;
  EXPECT_LT(cpu.losses.back(), 0.8 * cpu.losses.front());
}

struct Adam {
  std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> moments;
  int step = 0;

  void update(TinyTransformer& model, double rate) {
    ++step;
    for (auto& [name, p] : model.parameters()) {
      auto& [m, v] = moments[name];
      m.resize(p.value.size()), v.resize(p.value.size());
      for (std::int64_t i = 0; i < p.value.size(); ++i) {
        const double g = p.grad.data<double>()[i];
        m[i] = 0.9 * m[i] + 0.1 * g;
        v[i] = 0.98 * v[i] + 0.02 * g * g;
        p.value.data<double>()[i] -=
            rate * m[i] / (1 - std::pow(0.9, step)) / (std::sqrt(v[i] / (1 - std::pow(0.98, step))) + 1e-9);
      }
    }
  }
};

TEST(TinyTransformer, LearnsOneBatchByHeart) {
  TinyTransformer model(DType::f64, Device::cpu, /*dropout=*/0);
  const Batch batch = tiny_batch(Device::cpu);
  Adam adam;
  Tape tape;
  double loss_per_token = 0;
  for (int i = 0; i < 300; ++i) {
    const Var loss = model.loss(tape, batch, 0, /*label_smoothing=*/0);
    loss_per_token = loss.value().item() / kTargetTokens;
    zero_grads(model);
    tape.backward(loss);
    tape.clear();
    adam.update(model, 0.01);
  }
  EXPECT_LT(loss_per_token, 0.01);
}

TEST(TinyTransformer, ATrainingStepTakesNoMemoryFromTheSystem) {
  for (DType dtype : {DType::f32, DType::f64}) {
    for (Device device : devices()) {
      TinyTransformer model(dtype, device, /*dropout=*/0.1);
      const Batch batch = tiny_batch(device);
      Tape tape;
      const auto step = [&](std::uint32_t n) {
        zero_grads(model);
        tape.backward(model.loss(tape, batch, n, 0.1));
        tape.clear();
      };
      step(0), step(1);  // the caches fill
      const auto before_cpu = memory::statistics(Device::cpu), before = memory::statistics(device);
      for (std::uint32_t n = 2; n < 5; ++n) step(n);
      EXPECT_EQ(memory::statistics(Device::cpu).system_allocations, before_cpu.system_allocations) << name(device);
      EXPECT_EQ(memory::statistics(device).system_allocations, before.system_allocations) << name(device);
      EXPECT_EQ(memory::statistics(device).current, before.current) << name(device);
    }
  }
}

}  // namespace
}  // namespace foldgrad::testing
