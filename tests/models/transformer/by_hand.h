// The forward pass of a Transformer once more, put together from operations alone: pre-norm, one table of embeddings,
// gelu, no dropout.
#pragma once
#include <cmath>

#include "models/transformer/transformer.h"
#include "ops/activation/activation.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/attention/attention.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/embedding/embedding.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/linear/linear.h"
#include "ops/positions/positions.h"

namespace foldgrad::testing {

class TransformerByHand {
 public:
  // `values`: those of a model's parameters, by name.
  TransformerByHand(const TransformerConfig& config, const NamedTensors& values) : config_(config), values_(values) {}

  // The loss summed over the tokens of `target`. Ids are [tokens].
  double loss(const Tensor& source, const Segments& sources, const Tensor& input, const Segments& inputs,
              const Tensor& target, double label_smoothing) {
    const Var memory = stack("encoder", config_.encoder_layers, source, sources, nullptr, sources);
    const Var hidden = stack("decoder", config_.decoder_layers, input, inputs, &memory, sources);
    return cross_entropy(linear(hidden, value("encoder.embed_tokens.weight")), tape_.constant(target),
                         {.label_smoothing = label_smoothing, .ignore_index = kPad, .reduction = Reduction::sum})
        .value()
        .item();
  }

 private:
  Var stack(const std::string& side, std::int64_t layers, const Tensor& ids, const Segments& rows, const Var* memory,
            const Segments& of_memory) {
    Var x =
        embedding(value("encoder.embed_tokens.weight"), tape_.constant(ids), std::sqrt(double(config_.width)), kPad);
    x = sinusoidal_positions(x, rows.places(), sinusoidal_table(/*rows=*/8, config_.width, x.dtype()));
    for (std::int64_t i = 0; i < layers; ++i) {
      const std::string layer = side + ".layers." + std::to_string(i) + ".";
      const Var query = norm(layer + "self_attn_layer_norm", x);
      x = add(x, attend(layer + "self_attn", query, rows, query, rows, /*causal=*/memory != nullptr));
      if (memory)
        x = add(x, attend(layer + "encoder_attn", norm(layer + "encoder_attn_layer_norm", x), rows, *memory, of_memory,
                          /*causal=*/false));
      x = add(x, project(layer + "fc2", gelu(project(layer + "fc1", norm(layer + "final_layer_norm", x)))));
    }
    return norm(side + ".layer_norm", x);
  }
  Var attend(const std::string& name, const Var& query, const Segments& rows, const Var& keys, const Segments& of_keys,
             bool causal) {
    const Var q = project(name + ".q_proj", query), k = project(name + ".k_proj", keys),
              v = project(name + ".v_proj", keys);
    return project(name + ".out_proj",
                   attention(q, k, v, {.heads = int(config_.heads), .causal = causal}, rows, of_keys));
  }
  Var project(const std::string& name, const Var& x) {
    return linear(x, value(name + ".weight"), value(name + ".bias"));
  }
  Var norm(const std::string& name, const Var& x) {
    return layer_norm(x, value(name + ".weight"), value(name + ".bias"));
  }
  Var value(const std::string& name) { return tape_.constant(values_.at(name)); }

  static constexpr std::int64_t kPad = 1;
  const TransformerConfig config_;
  const NamedTensors values_;
  Tape tape_{/*recording=*/false};
};

}  // namespace foldgrad::testing
