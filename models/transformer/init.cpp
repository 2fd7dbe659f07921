#include "models/transformer/init.h"

#include <cmath>

#include "models/blocks/random_fill.h"

namespace foldgrad {
namespace {

// One stack's initial values.
struct StackInitializer {
  const TransformerConfig& config;
  std::uint64_t seed;
  double tfixup_factor;  // f

  bool tfixup() const { return config.initialization == "tfixup"; }
  bool xavier() const { return config.initialization == "xavier"; }

  void fill(Parameter& weight, double gain) const {
    const Shape& shape = weight.value.shape();
    fill_uniform(weight, gain * std::sqrt(6.0 / double(shape[0] + shape[1])), seed);
  }

  void attention(AttentionBlock& block, bool to_source) const {
    const double deepnorm = block.sublayer.norm->initial_gain(), half = std::sqrt(0.5);
    double query = half, key = half, value = half;
    if (xavier() && to_source) query = 1, key = value = std::sqrt(2.0 / 3);
    if (tfixup()) value = tfixup_factor;
    if (tfixup() && config.tfixup_scope == "all") query = key = tfixup_factor;
    fill(block.qkv[0].weight, query);
    fill(block.qkv[1].weight, key);
    fill(block.qkv[2].weight, deepnorm * value);
    fill(block.sublayer.out.weight, deepnorm * (tfixup() ? tfixup_factor : 1));
    if (tfixup() || xavier()) return;
    for (LinearLayer& layer : block.qkv) fill_uniform(layer.bias, 1 / std::sqrt(double(config.width)), seed);
  }

  void feed_forward(FeedForwardBlock& block) const {
    const double deepnorm = block.sublayer.norm->initial_gain();
    for (LinearLayer* layer : {&block.fc1, &block.sublayer.out}) {
      if (tfixup() || xavier()) {
        fill(layer->weight, deepnorm * (tfixup() ? tfixup_factor : 1));
        continue;
      }
      const double bound = 1 / std::sqrt(double(layer->weight.value.shape()[1]));
      fill_uniform(layer->weight, deepnorm * bound, seed);
      fill_uniform(layer->bias, bound, seed);
    }
  }

  void stack(std::deque<TransformerLayer>& layers) const {
    for (TransformerLayer& layer : layers) {
      attention(layer.self_attention, false);
      if (layer.cross_attention) attention(*layer.cross_attention, true);
      feed_forward(layer.feed_forward);
    }
  }
};

}  // namespace

void initialize(Transformer& model, std::uint64_t seed) {
  const TransformerConfig& config = model.config();
  const auto N = double(config.encoder_layers), M = double(config.decoder_layers);
  const double deviation = 1 / std::sqrt(double(config.width));
  const auto fill = [&](Parameter& table, double factor) {
    if (config.fixnorm)
      fill_uniform(table, 0.01, seed);  // Nguyen, Salazar 2019: lengths do not matter, but to the size of a step
    else
      fill_normal(table, factor * deviation, seed);
  };
  const auto embedding = [&](Parameter& table, double layers) {
    fill(table, config.initialization == "tfixup" ? std::pow(9 * layers, -0.25) : 1);
    table.value.slice(config.pad, config.pad + 1).zero();
  };
  embedding(model.source_table(), N);
  if (!config.one_input_table()) embedding(model.target_table(), M);
  if (config.own_output_table()) fill(model.output_table(), 1);
  StackInitializer{config, seed, 0.67 * std::pow(N, -0.25)}.stack(model.encoder_layers());
  StackInitializer{config, seed, std::pow(9 * M, -0.25)}.stack(model.decoder_layers());
}

}  // namespace foldgrad
