// Helpers for tests of models of any family.
#pragma once
#include <functional>
#include <map>

#include "models/fold/difference.h"
#include "models/model.h"
#include "tests/harness/compare.h"

namespace foldgrad::testing {

inline std::vector<std::string> normalizer_names() {
  std::vector<std::string> all;
  for (const NormalizerInfo& info : normalizers()) all.push_back(info.name);
  return all;
}

// Returns the options that the normalizer needs in a model with 8 channels.
inline std::map<std::string, std::string> suitable_options(const std::string& normalizer) {
  if (normalizer == "groupnorm") return {{"groups", "4"}};
  if (normalizer == "pn") return {{"groups", "2"}};
  return {};
}

// Returns the normalizer's options as text, for descriptions of configurations.
template <class Config>
std::string options_of(const Config& config) {
  std::string text;
  for (const auto& [name, value] : config.normalizer_options) text += ", " + name + " = " + value;
  return text;
}

// Replaces all parameters with random values; normalizers' gains get values around 1. Initial values would hide errors:
// gains are 1, biases are 0, and all predicted probabilities are almost equal.
inline void randomize(Model& model, unsigned seed, double deviation = 0.3) {
  for (Parameter* p : model.parameters()) {
    const bool of_norm = p->name.find("norm") != std::string::npos || p->name.find("ln_") != std::string::npos;
    const bool gain = of_norm && p->name.ends_with("weight");
    p->value.copy_from(randn(p->value.shape(), ++seed, deviation, gain ? 1 : 0).to(p->value.dtype()));
  }
}

// Randomizes the normalizers' statistics, roughly as much as training changes them. Running means are drawn from a
// normal distribution, all other statistics from a log-normal distribution.
inline void randomize_statistics(Model& model, unsigned seed) {
  for (Normalizer* norm : model.normalizers())
    for (auto&& [name, tensor] : norm->state()) {
      if (!is_floating(tensor.dtype())) continue;
      const Tensor random = randn(tensor.shape(), ++seed);
      for (std::int64_t i = 0; i < random.size() && name != "run_mean"; ++i)
        random.data<double>()[i] = std::exp(random.data<double>()[i]);
      tensor.copy_from(random.to(tensor.dtype()));
    }
}

// Returns `count` random images and their classes, the inputs of an image classifier.
template <class Config>
NamedTensors images_of(const Config& config, std::int64_t count = 3) {
  return {{"images", randn({count, config.image_size, config.image_size, 3}, 7)},
          {"target", random_ids({count}, config.classes, 8)}};
}

using Parameters = std::vector<std::pair<std::string, Shape>>;
template <class M>
Parameters parameters_of(M&& model) {
  Parameters all;
  for (const Parameter* p : model.parameters()) all.push_back({p->name, p->value.shape()});
  return all;
}

// Applies `change` to the configuration, and returns the error message of the model's constructor.
template <class M, class Config, class Change>
std::string refusal(Config config, const Change& change) {
  change(config);
  return message_of([&] { M(config, 1); });
}

inline double loss_of(Model& model, const NamedTensors& inputs, bool training = true) {
  Tape tape(/*recording=*/false);
  return model.loss(inputs, {.tape = tape, .dtype = model.dtype(), .training = training, .seed = 5, .step = 3}, 0.1)
      .value()
      .item();
}

// Clears the gradients of earlier passes, runs a forward and a backward pass, and returns the loss.
inline double backward(Model& model, const NamedTensors& inputs, DType dtype) {
  Tape tape;
  for (Parameter* p : model.parameters()) p->zero_grad();
  const Var loss = model.loss(inputs, {.tape = tape, .dtype = dtype, .training = true, .seed = 5, .step = 3}, 0.1);
  const double value = loss.value().item();
  tape.backward(loss);
  return value;
}

// Checks gradients in f64. For each parameter, compares the derivative of the loss along a random direction with
// central differences of fourth order. Restores the normalizers' state before each evaluation of the loss.
inline void check_gradients(Model& model, const NamedTensors& inputs) {
  const NamedTensors before = model.snapshot();
  backward(model, inputs, DType::f64);
  for (Parameter* p : model.parameters()) {
    ASSERT_TRUE(p->has_grad) << p->name;
    const std::vector<double> at = p->value.values<double>(), g = p->grad.values<double>(),
                              along = randn(p->value.shape(), 3).values<double>();
    double got = 0, step = 0;
    for (std::size_t i = 0; i < at.size(); ++i) got += g[i] * along[i];
    const double want = derivative(step, 1e-5, [&] {
      for (std::size_t i = 0; i < at.size(); ++i) p->value.data<double>()[i] = at[i] + step * along[i];
      model.restore(before);
      return loss_of(model, inputs);
    });
    std::copy(at.begin(), at.end(), p->value.data<double>());
    EXPECT_NEAR(got, want, 1e-7 * (1 + std::abs(want))) << p->name;
  }
}

// Checks that a gradient step lowers the loss, that activations in f32 and bf16 change the loss only by rounding
// errors, and that each normalizer with an iteration counter has counted one training pass. make(dtype) must return
// models that differ only in their dtype.
inline void check_one_step(const std::function<std::unique_ptr<Model>(DType)>& make, const NamedTensors& inputs) {
  const std::unique_ptr<Model> exact = make(DType::f64), model = make(DType::f32);
  const NamedTensors begin = model->snapshot();
  const double want = loss_of(*exact, inputs);
  EXPECT_NEAR(backward(*model, inputs, DType::bf16), want, 0.1 * want);
  model->restore(begin);
  const double before = backward(*model, inputs, DType::f32);
  EXPECT_NEAR(before, want, 1e-5 * want);
  double square = 0;
  for (Parameter* p : model->parameters())
    for (float g : p->grad.values<float>()) square += double(g) * g;
  for (Parameter* p : model->parameters())
    for (std::int64_t i = 0; i < p->value.size(); ++i)
      p->value.data<float>()[i] -= float(0.1 / square) * p->grad.data<float>()[i];
  model->restore(begin);
  EXPECT_LT(loss_of(*model, inputs), before - 0.05);
  for (Normalizer* norm : model->normalizers())
    EXPECT_EQ(norm->diagnostics().iterations, norm->state().count("iters")) << norm->site();
}

// Adds each kind of dropout in turn to a configuration without dropout. Checks that dropout changes the loss in
// training but not at inference, and that the loss depends on seed and step, since they select the mask.
template <class M, class Config>
void check_dropouts(const Config& without, const NamedTensors& inputs) {
  const auto loss = [&](const Config& config, bool training, std::uint64_t seed, std::uint32_t step) {
    M model(config, 1, DType::f64);
    randomize(model, 1);
    Tape tape(/*recording=*/false);
    const ForwardPass pass{.tape = tape, .dtype = DType::f64, .training = training, .seed = seed, .step = step};
    return model.loss(inputs, pass, 0.1).value().item();
  };
  const double none = loss(without, true, 1, 1);
  for (double Config::*key : {&Config::dropout, &Config::attention_dropout, &Config::activation_dropout}) {
    Config config = without;
    config.*key = 0.3;
    const double with = loss(config, true, 1, 1);
    EXPECT_GT(std::abs(with - none), 1e-4);
    EXPECT_EQ(with, loss(config, true, 1, 1));
    EXPECT_GT(std::abs(with - loss(config, true, 1, 2)), 1e-4);
    EXPECT_GT(std::abs(with - loss(config, true, 2, 1)), 1e-4);
    EXPECT_EQ(loss(config, false, 1, 1), none);  // ln computes the same in training and at inference
  }
}

// Checks that two training passes in f64 give the same losses, gradients and state on CUDA as on the CPU, up to
// rounding.
template <class M, class Config>
void check_cuda_is_cpu(const Config& config, const NamedTensors& inputs) {
  M cpu(config, 1, DType::f64), cuda(config, 1, DType::f64, Device::cuda);
  for (int step = 0; step < 2; ++step) {
    const double want = backward(cpu, inputs, DType::f64), got = backward(cuda, to(inputs, Device::cuda), DType::f64);
    EXPECT_NEAR(got, want, 1e-11 * want);
  }
  const auto a = cpu.parameters(), b = cuda.parameters();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(close(b[i]->grad, a[i]->grad, 1e-10)) << a[i]->name;
  M copy(config, 2, DType::f64);
  copy.copy_from(cuda);
  for (const auto& [name, tensor] : cpu.state()) EXPECT_TRUE(close(copy.state().at(name), tensor, 1e-10)) << name;
  EXPECT_NEAR(loss_of(copy, inputs, false), loss_of(cpu, inputs, false), 1e-10);
}

// Counts the multiplications in the matrix products of one image's forward pass, including attention and convolutions.
inline std::int64_t multiplications(Model& model) {
  Tape tape;
  (void)model.forward(model.smallest_inputs(), {.tape = tape, .dtype = DType::f32});
  std::int64_t count = 0;
  for (const auto& node : tape.nodes()) {
    const Shape &y = tape.shape_of(node->output()), &x = tape.shape_of(node->inputs()[0]);
    const std::string name = node->name();
    if (name == "linear") count += y.elements() * x[-1];
    if (name == "attention_packed")  // the number of keys is the bias's last size or, without a bias, y's first
      count += 2 * y.elements() * (node->inputs().size() > 1 ? tape.shape_of(node->inputs()[1])[-1] : y[0]);
    if (name == "conv2d_channels_last") count += y.elements() * tape.shape_of(node->inputs()[1]).elements() / y[-1];
    if (name == "weighted_pool") count += x.elements();
    if (name == "matmul") {  // m k n is the root of the product of the sizes m k, k n and m n
      const Shape& b = tape.shape_of(node->inputs()[1]);
      count += std::llround(std::sqrt(double(x.elements()) * double(b.elements()) * double(y.elements())));
    }
  }
  return count;
}

// Checks how many parameters, multiplications (`products`) and normalizer sites a model has.
template <class M, class Config>
void expect_sizes(const Config& config, std::int64_t parameters, std::int64_t products, std::size_t sites) {
  M model(config, std::nullopt);
  EXPECT_EQ(model.parameter_count(), parameters);
  EXPECT_EQ(multiplications(model), products);
  EXPECT_EQ(model.normalizers().size(), sites);
}

// Small configurations of a family, and inputs for them. few(normalizer) returns the main variants of the family, such
// as pre-norm and post-norm, and all(normalizer) returns more. Both return an empty list if the family does not support
// the normalizer.
template <class M>
struct Kinds;

// Returns a model with random weights and statistics.
template <class M, class Config>
std::unique_ptr<M> random_model(const Config& config, DType dtype = DType::f64) {
  auto model = std::make_unique<M>(config, 1, dtype);
  randomize(*model, 100);
  randomize_statistics(*model, 1000);
  return model;
}

template <class M, class Config>
void check_gradients_of(const Config& config) {
  M model(config, 1, DType::f64);
  randomize(model, 10);
  check_gradients(model, Kinds<M>::inputs(config));
}

inline std::map<std::string, SiteReport> by_site(const FoldedModel& folded) {
  std::map<std::string, SiteReport> all;
  for (const SiteReport& report : folded.reports) all[report.site] = report;
  return all;
}

// Returns the difference between the inference logits of a model and of its folded form.
inline Difference folding_error(Model& model, const NamedTensors& inputs, const FoldOptions& options) {
  return difference(inference_logits(*fold(model, options).model, inputs, model.dtype()),
                    inference_logits(model, inputs, model.dtype()));
}

}  // namespace foldgrad::testing
