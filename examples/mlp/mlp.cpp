// A multilayer perceptron with Unified Normalization that learns to separate two spirals.
#include <cmath>
#include <cstdio>

#include "models/blocks/random_fill.h"
#include "models/normalizers/normalizer.h"
#include "ops/activation/activation.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/linear/linear.h"
#include "train/loop/optimizer/optimizer.h"

using namespace foldgrad;

namespace {

constexpr std::int64_t kPoints = 200, kHidden = 32;

// Points [kPoints, 2], and the spiral number of each point, [kPoints].
struct Spirals {
  Tensor x = Tensor::empty({kPoints, 2}, DType::f32), spiral = Tensor::empty({kPoints}, DType::i64);

  Spirals() {
    for (std::int64_t i = 0; i < kPoints; ++i) {
      const double along = double(i / 2) / (kPoints / 2), angle = 9 * along + 3.14159265 * double(i % 2);
      x.data<float>()[2 * i] = float((0.2 + along) * std::cos(angle));
      x.data<float>()[2 * i + 1] = float((0.2 + along) * std::sin(angle));
      spiral.data<std::int64_t>()[i] = i % 2;
    }
  }
};

struct Mlp {
  Parameter w1 = uniform_parameter("fc1.weight", {kHidden, 2}, 1, 1),
            b1 = uniform_parameter("fc1.bias", {kHidden}, 1, 1),
            w2 = uniform_parameter("fc2.weight", {kHidden, kHidden}, 0.3, 1),
            b2 = uniform_parameter("fc2.bias", {kHidden}, 0.3, 1),
            w3 = uniform_parameter("fc3.weight", {2, kHidden}, 0.4, 1), b3 = uniform_parameter("fc3.bias", {2}, 0.4, 1);
  std::unique_ptr<Normalizer> norm = make_normalizer("un", {{"warmup", "50"}}, "norm", kHidden);

  std::vector<Parameter*> parameters() {
    std::vector<Parameter*> all{&w1, &b1, &w2, &b2, &w3, &b3};
    for (Parameter* p : norm->parameters()) all.push_back(p);
    return all;
  }
  Var logits(Tape& tape, const Tensor& x, bool training) {
    const auto layer = [&](const Var& in, Parameter& w, Parameter& b) {
      return linear(in, tape.parameter(w), tape.parameter(b));
    };
    const Var h = tanh(layer(tape.constant(x), w1, b1));
    return layer(tanh(norm->apply(layer(h, w2, b2), {.training = training})), w3, b3);
  }
};

}  // namespace

int main() {
  const Spirals data;
  Mlp mlp;
  Optimizer optimizer(AdamW{}, {{.parameters = mlp.parameters(), .weight_decay = 1e-4}});
  Tape tape;
  for (int step = 1; step <= 600; ++step) {
    optimizer.zero_grad();
    const Var loss = cross_entropy(mlp.logits(tape, data.x, /*training=*/true), tape.constant(data.spiral));
    if (step % 100 == 0) std::printf("step %d  loss %.4f\n", step, loss.value().item());
    tape.backward(loss);
    optimizer.step(1e-2);
    tape.clear();
  }
  Tape inference(/*recording=*/false);
  const Tensor logits = mlp.logits(inference, data.x, /*training=*/false).value();
  int right = 0;
  for (std::int64_t i = 0; i < kPoints; ++i)
    right += (logits.data<float>()[2 * i + 1] > logits.data<float>()[2 * i]) == (i % 2 == 1);
  std::printf("%d of %d points are classified correctly\n", right, int(kPoints));
}
