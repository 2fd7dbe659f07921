// The Transformer's implementation of Model: its parts, random inputs for checks, copies, and models for folding.
#include "models/fold/model.h"

#include <algorithm>
#include <random>
#include <set>

#include "models/transformer/transformer.h"

namespace foldgrad {

void Transformer::list(ModelParts& parts) {
  parts.add(encoder_table_, encoder_, encoder_norm_);
  parts.add(decoder_table_, decoder_, decoder_norm_);
  parts.add(output_, output_bias_);
  parts.output = {&output_table()};
  if (config_.output_bias) parts.output.push_back(&output_bias_);
}

NamedTensors Transformer::smallest_inputs() const {
  const std::int64_t id = config_.pad == 0 ? 1 % config_.source_vocabulary : 0;
  const Ids one{id}, two{id, id};
  const Sentences some = Sentences::of(config_.max_positions > 1 ? std::vector<Ids>{two, one} : std::vector<Ids>{one});
  return TranslationBatch{some, some, some.ids}.named();
}

NamedTensors Transformer::random_inputs(std::uint64_t seed) const {
  constexpr int kSentences = 8;
  constexpr std::int64_t kTokens = 16;
  std::mt19937_64 random(seed);
  const std::int64_t most = std::clamp<std::int64_t>(config_.max_positions - 2, 1, kTokens);
  const auto side = [&](std::int64_t vocabulary) {
    std::vector<Ids> rows;
    for (int s = 0; s < kSentences; ++s) {
      Ids ids(1 + random() % std::uint64_t(most));
      // Draws from all ids except padding.
      for (auto& id : ids)
        id = vocabulary < 2 ? 0
                            : (config_.pad + 1 + std::int64_t(random() % std::uint64_t(vocabulary - 1))) % vocabulary;
      rows.push_back(std::move(ids));
    }
    return rows;
  };
  const std::vector<Ids> sources = side(config_.source_vocabulary), targets = side(config_.target_vocabulary);
  return make_batch(sources, targets).named();
}

// Returns a model without fixnorm. Its tables contain the rows of this model's tables, divided by their lengths.
std::unique_ptr<Model> Transformer::foldable() {
  if (!config_.fixnorm) return nullptr;
  TransformerConfig config = config_;
  config.fixnorm = false;
  auto plain = std::make_unique<Transformer>(config, std::nullopt, dtype(), device());
  plain->copy_from(*this);
  // Divides each shared table once, since dividing it again would round it again.
  for (Parameter* table : std::set{&plain->source_table(), &plain->target_table(), &plain->output_table()})
    table->value.copy_from(rows_of(*table));
  return plain;
}

// If folding untied the output projection, the new model has a separate output table. If folding created a bias for
// this projection, the new model has that bias, too.
std::unique_ptr<Model> Transformer::alike(DType dtype, Device device, const FoldedGraph* folded) const {
  TransformerConfig config = config_;
  if (folded) {
    set_normalizers_left(config, *this, *folded);
    if (folded->created.count("decoder.output_projection.weight"))
      config.share_embeddings = config.share_embeddings == "all" ? "inputs" : "none";
    if (folded->created.count("decoder.output_projection.bias")) config.output_bias = true;
  }
  return std::make_unique<Transformer>(config, std::nullopt, dtype, device);
}

Transformer& as_transformer(Model& model, const char* who) {
  auto* transformer = dynamic_cast<Transformer*>(&model);
  FOLDGRAD_CHECK(transformer, "{} needs a transformer, got {}", who, model.family());
  return *transformer;
}

}  // namespace foldgrad
