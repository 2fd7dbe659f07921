// Initial values of a Transformer. X is Xavier's bound sqrt(6 / (in + out)), U(b) is uniform in [-b, b], and N(s) is
// normal with deviation s.
//
//                           fairseq (1.0.0a0)        xavier                  tfixup
//   embeddings              N(width^-1/2), pad row 0 the same                the same times e
//   separate output table   N(width^-1/2)            the same                the same
//   tables with fixnorm     U(0.01), pad row 0 except in a separate output table, in each of the three
//   q, k, self-attention    U(X / sqrt 2)            U(X / sqrt 2)           U(X / sqrt 2); with scope all U(f X)
//   v, self-attention       U(X / sqrt 2)            U(X / sqrt 2)           U(f X)
//   q, cross-attention      U(X / sqrt 2)            U(X)                    as in self-attention
//   k, v, cross-attention   U(X / sqrt 2)            U(X sqrt(2/3))          as in self-attention
//   out                     U(X)                     U(X)                    U(f X)
//   biases of q, k, v       U(width^-1/2)            0                       0
//   bias of out             0                        0                       0
//   fc1, fc2                U(in^-1/2), biases too   U(X), biases 0          U(f X), biases 0
//
//   xavier uses Xavier's bound for every matrix, with the matrices of typical PyTorch programs: one for q, k and v of
//   self-attention, and one for k and v of cross-attention.
//
//   f is 0.67 N^-1/4 in an encoder of N layers and (9 M)^-1/4 in a decoder of M layers; e is (9 N)^-1/4 for a table
//   that the encoder reads and (9 M)^-1/4 for the decoder's own table. See Huang et al., "Improving Transformer
//   Optimization Through Better Initialization" (2020); the constants are from the authors' code
//   (layer6ai-labs/T-Fixup). In each column, ResidualConstants::initial_gain multiplies the weights of v, out, fc1 and
//   fc2.
#include <cmath>

#include "models/blocks/random_fill.h"
#include "models/transformer/transformer.h"

namespace foldgrad {
namespace {

// Fills the encoder or the decoder.
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
    const double deepnorm = block.sublayer.constants().initial_gain, half = std::sqrt(0.5);
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
    const double deepnorm = block.sublayer.constants().initial_gain;
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

void Transformer::initialize(std::uint64_t seed) {
  const auto N = double(config_.encoder_layers), M = double(config_.decoder_layers);
  const double deviation = 1 / std::sqrt(double(config_.width));
  const auto fill = [&](Parameter& table, double factor) {
    if (config_.fixnorm)
      fill_uniform(table, 0.01, seed);  // as in Nguyen, Salazar 2019; lengths affect only the step size
    else
      fill_normal(table, factor * deviation, seed);
  };
  const auto embedding = [&](Parameter& table, double layers) {
    fill(table, config_.initialization == "tfixup" ? std::pow(9 * layers, -0.25) : 1);
    table.value.slice(config_.pad, config_.pad + 1).zero();
  };
  embedding(source_table(), N);
  if (!config_.one_input_table()) embedding(target_table(), M);
  if (config_.own_output_table()) fill(output_table(), 1);
  StackInitializer{config_, seed, 0.67 * std::pow(N, -0.25)}.stack(encoder_);
  StackInitializer{config_, seed, std::pow(9 * M, -0.25)}.stack(decoder_);
}

}  // namespace foldgrad
