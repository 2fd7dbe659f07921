// Random Transformers for properties of folding: sizes, kinds, weights, and states with tiny and large variances.
#pragma once
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>

#include "models/fold_transformer.h"
#include "tests/models/tiny_translation.h"

namespace foldgrad::testing {

inline TransformerConfig random_config(const std::string& normalizer, bool pre_norm) {
  TransformerConfig config = tiny_config(normalizer, pre_norm);
  config.heads = *rc::gen::element<std::int64_t>(1, 2, 4);
  config.width = config.heads * *rc::gen::element<std::int64_t>(4, 6);
  config.ffn_width = *rc::gen::inRange<std::int64_t>(1, 20);
  config.encoder_layers = *rc::gen::inRange<std::int64_t>(1, 4);
  config.decoder_layers = *rc::gen::inRange<std::int64_t>(1, 4);
  config.activation = *rc::gen::element<std::string>("relu", "gelu");
  config.share_embeddings = *rc::gen::element<std::string>("all", "decoder", "inputs", "none");
  config.output_bias = *rc::gen::element(false, true);
  return config;
}

// Running variances from 1e-8 to 1e8. The gain follows the deviation half of the way, since a trained network's
// activations do not grow by 1e4 at every site.
inline void randomize_state(Transformer& model, unsigned seed) {
  for (Normalizer* norm : model.normalizers()) {
    std::vector<double> factor(std::size_t(norm->channels()), 1);
    for (const auto& [name, tensor] : norm->state()) {
      const Tensor random = randn(tensor.shape(), ++seed), value = random.clone();
      if (name == "run_var" || name == "phi") {
        for (std::int64_t c = 0; c < random.size(); ++c) {
          const double exponent = std::clamp(3 * random.data<double>()[c], -8.0, 8.0);
          value.data<double>()[c] = std::pow(10.0, exponent);
          factor[std::size_t(c)] = std::sqrt(value.data<double>()[c] + 1e-5);
        }
      } else if (name != "run_mean") {
        continue;
      }
      tensor.copy_from(value.to(tensor.dtype()));
    }
    for (Parameter* p : norm->parameters())
      if (p->name == norm->site() + ".weight" || p->name == norm->site() + ".bn.weight") {
        const Tensor gain = p->value.to(DType::f64).clone();
        for (std::int64_t c = 0; c < gain.size(); ++c) gain.data<double>()[c] *= factor[std::size_t(c)];
        p->value.copy_from(gain.to(p->value.dtype()));
      }
  }
}

inline std::unique_ptr<Transformer> random_transformer(const TransformerConfig& config, DType dtype) {
  auto model = std::make_unique<Transformer>(config, 1, dtype);
  const auto seed = *rc::gen::inRange<unsigned>(0, 1000000);
  randomize(*model, seed, 0.15);
  randomize_state(*model, seed);
  return model;
}

}  // namespace foldgrad::testing
