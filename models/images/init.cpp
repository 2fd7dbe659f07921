// Initial values of an image classifier. X is Xavier's bound sqrt(6 / (in + out)), U(b) is uniform in [-b, b], and N(s)
// is normal with deviation s.
//
//                           timm          cct               pytorch       tfixup
//   patches, convolutions   U(in^-1/2)    N((2 / in)^1/2)   U(in^-1/2)    U(X), the last of them U(e X)
//   biases of these         U(in^-1/2)    0                 U(in^-1/2)    0
//   positions               N(0.02)       N(0.2)            N(1)          N(e width^-1/2)
//   cls                     N(1e-6)       0                 N(1)          N(e width^-1/2)
//   q, k                    N(0.02)       N(0.02)           U(in^-1/2)    U(X / sqrt 2); with scope all U(f X)
//   v, out, fc1, fc2        N(0.02)       N(0.02)           U(in^-1/2)    U(f X)
//   attention_pool, head    N(0.02)       N(0.02)           U(in^-1/2)    U(X)
//   biases of these         0             0                 U(in^-1/2)    0
//
//   `in` is 3 patch^2 for patches, and channels times kernel pixels for convolutions. timm is
//   huggingface/pytorch-image-models, vision_transformer.py, which truncates the normal at +-2, a hundred deviations.
//   cct is SHI-Labs/Compact-Transformers, src/utils, which also truncates normals at +-2. pytorch uses the defaults of
//   torch.nn.Linear, torch.nn.Conv2d and torch.randn, as lucidrains/vit-pytorch does. tfixup is as in
//   models/transformer/init.cpp for encoders, with f = 0.67 layers^-1/4 and e = (9 layers)^-1/4.
//   In each column, ResidualConstants::initial_gain multiplies the weights of v, out, fc1 and fc2.
//
//   With sinusoidal positions, attention can tell from the start which tokens are neighbours. These positions are
//   trained, as random ones are. [VIT-3] is for the token in row r and column c of an S x S map; its table is [POS-1]
//   with half the width. The cls token and the last channel of an odd width have zeros. Chen, Xie, He: "An Empirical
//   Study of Training Self-Supervised Vision Transformers", ICCV 2021, use such positions without training them.
#include <algorithm>
#include <cmath>

#include "models/blocks/random_fill.h"
#include "models/images/token_model.h"
#include "ops/positions/positions.h"

namespace foldgrad {
namespace {

std::int64_t inputs_of(const Parameter& w) { return w.value.size() / w.value.shape()[0]; }

struct Initializer {
  const TokenModelConfig& config;
  std::uint64_t seed;

  bool is(const char* name) const { return config.initialization == name; }
  double f() const { return 0.67 * std::pow(double(config.layers), -0.25); }
  double e() const { return std::pow(9 * double(config.layers), -0.25); }
  static double xavier(const Parameter& w) {
    return std::sqrt(6 / (double(inputs_of(w)) + double(w.value.shape()[0])));
  }

  // Fills a weight. `gain` is the normalizer's initial_gain; with tfixup, `factor` multiplies X.
  void weight(Parameter& w, double gain, double factor) const {
    if (is("timm") || is("cct"))
      fill_normal(w, gain * 0.02, seed);
    else
      fill_uniform(w, gain * (is("tfixup") ? factor * xavier(w) : 1 / std::sqrt(double(inputs_of(w)))), seed);
  }
  void bias(Parameter& b, std::int64_t in) const {
    if (b.value.defined()) fill_uniform(b, 1 / std::sqrt(double(in)), seed);
  }
  void linear(LinearLayer& layer, double gain, double factor) const {
    weight(layer.weight, gain, factor);
    if (is("pytorch")) bias(layer.bias, inputs_of(layer.weight));
  }

  void stem(TokenModel& model) const {
    for (ConvLayer& conv : model.stem()) {
      const double in = double(inputs_of(conv.weight)), last = &conv == &model.stem().back() ? e() : 1;
      if (is("cct"))
        fill_normal(conv.weight, std::sqrt(2 / in), seed);
      else
        fill_uniform(conv.weight, is("tfixup") ? last * xavier(conv.weight) : 1 / std::sqrt(in), seed);
      if (is("timm") || is("pytorch")) bias(conv.bias, inputs_of(conv.weight));
    }
  }
  void tokens(TokenModel& model) const {
    const double e_deviation = e() / std::sqrt(double(config.width));
    const double positions = is("timm") ? 0.02 : is("cct") ? 0.2 : is("tfixup") ? e_deviation : 1;
    if (config.positions == "sinusoidal")
      sinusoidal(model.positions().value);
    else
      fill_normal(model.positions(), positions, seed);
    if (Parameter* cls = model.cls(); cls && !is("cct")) fill_normal(*cls, is("timm") ? 1e-6 : positions, seed);
  }

  void sinusoidal(Tensor& positions) const {  // [VIT-3]
    const std::int64_t C = config.width, half = C / 2, cls = config.has_cls(), tokens = positions.shape()[1] - cls;
    const std::int64_t side = std::llround(std::sqrt(double(tokens)));
    const Tensor table = sinusoidal_table(side + 2, half, DType::f64),
                 all = Tensor::zeros(positions.shape(), DType::f64);
    const auto place = [&](std::int64_t n) { return table.data<double>() + (n + 2) * half; };
    for (std::int64_t t = 0; t < tokens; ++t) {
      double* const row = all.data<double>() + (cls + t) * C;
      std::copy_n(place(t % side), half, row);
      std::copy_n(place(t / side), half, row + half);
    }
    positions.copy_from(all.to(positions.dtype()));
  }

  // Fills the parts of qkv as three separate matrices.
  void attention(AttentionBlock& block) const {
    LinearLayer& qkv = block.qkv[0];
    const double gain = block.sublayer.constants().initial_gain, half = std::sqrt(0.5);
    const std::int64_t C = config.width;
    for (std::int64_t part = 0; part < 3; ++part) {
      const bool value = part == 2;
      Parameter rows{qkv.weight.name + "." + "qkv"[part], qkv.weight.value.slice(part * C, (part + 1) * C)};
      weight(rows, value ? gain : 1, value || config.tfixup_scope == "all" ? f() : half);
    }
    if (is("pytorch")) bias(qkv.bias, C);
    linear(block.sublayer.out, gain, f());
  }
};

}  // namespace

void TokenModel::initialize(std::uint64_t seed) {
  const Initializer init{config(), seed};
  init.stem(*this);
  init.tokens(*this);
  for (TransformerLayer& layer : layers_) {
    init.attention(layer.self_attention);
    const double gain = layer.feed_forward.sublayer.constants().initial_gain;
    init.linear(layer.feed_forward.fc1, gain, init.f());
    init.linear(layer.feed_forward.sublayer.out, gain, init.f());
  }
  if (attention_pool_) init.linear(*attention_pool_, 1, 1);
  init.linear(head(), 1, 1);
}

}  // namespace foldgrad
