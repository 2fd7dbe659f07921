#include "models/vit/init.h"

#include <cmath>

#include "models/blocks/random_fill.h"

namespace foldgrad {
namespace {

struct Initializer {
  const VitConfig& config;
  std::uint64_t seed;

  bool timm() const { return config.initialization == "timm"; }
  bool tfixup() const { return config.initialization == "tfixup"; }
  double f() const { return 0.67 * std::pow(double(config.layers), -0.25); }
  double e() const { return std::pow(9 * double(config.layers), -0.25); }

  // `gain` is the normalizer's, `xavier` the factor of X with tfixup.
  void weight(Parameter& w, double gain, double xavier) const {
    const auto out = double(w.value.shape()[0]), in = double(w.value.size()) / out;
    if (timm())
      fill_normal(w, gain * 0.02, seed);
    else
      fill_uniform(w, gain * (tfixup() ? xavier * std::sqrt(6 / (in + out)) : 1 / std::sqrt(in)), seed);
  }
  void bias(Parameter& b, std::int64_t in) const {
    if (config.initialization == "pytorch" && b.value.defined()) fill_uniform(b, 1 / std::sqrt(double(in)), seed);
  }
  void linear(LinearLayer& layer, double gain, double xavier) const {
    weight(layer.weight, gain, xavier);
    bias(layer.bias, layer.weight.value.shape()[1]);
  }

  void patches(Vit& model) const {
    Parameter& w = model.patch_weight();
    const std::int64_t in = w.value.size() / config.width;
    weight(w, 1, e());
    if (timm()) fill_uniform(w, 1 / std::sqrt(double(in)), seed);
    if (!tfixup()) fill_uniform(model.patch_bias(), 1 / std::sqrt(double(in)), seed);
    const double deviation = tfixup() ? e() / std::sqrt(double(config.width)) : 1;
    fill_normal(model.positions(), timm() ? 0.02 : deviation, seed);
    if (Parameter* cls = model.cls()) fill_normal(*cls, timm() ? 1e-6 : deviation, seed);
  }

  // The parts of qkv are filled as three matrices, each named after itself.
  void attention(PackedAttentionBlock& block) const {
    const double gain = block.sublayer.norm->initial_gain(), half = std::sqrt(0.5);
    const std::int64_t C = config.width;
    for (std::int64_t part = 0; part < 3; ++part) {
      const bool value = part == 2;
      Parameter rows{block.qkv.weight.name + "." + "qkv"[part], block.qkv.weight.value.slice(part * C, (part + 1) * C)};
      weight(rows, value ? gain : 1, value || config.tfixup_scope == "all" ? f() : half);
    }
    bias(block.qkv.bias, C);
    linear(block.sublayer.out, gain, f());
  }
};

}  // namespace

void initialize(Vit& model, std::uint64_t seed) {
  const Initializer init{model.config(), seed};
  init.patches(model);
  for (VitLayer& layer : model.layers()) {
    init.attention(layer.attention);
    const double gain = layer.feed_forward.sublayer.norm->initial_gain();
    init.linear(layer.feed_forward.fc1, gain, init.f());
    init.linear(layer.feed_forward.sublayer.out, gain, init.f());
  }
  init.linear(model.head(), 1, 1);
}

}  // namespace foldgrad
