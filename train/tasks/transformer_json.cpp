#include "train/tasks/transformer_json.h"

#include "train/tasks/config_json.h"

namespace foldgrad {
nlohmann::ordered_json transformer_json(const TransformerConfig& config) { return config_json(config); }

TransformerConfig parse_transformer(const nlohmann::json& root) {
  const auto positions = [](const TransformerConfig& config, const JsonSection&) {
    FOLDGRAD_CHECK(config.max_positions <= kMostPositions, "model.max_positions must be at most {}, got {}",
                   kMostPositions, config.max_positions);
  };
  const auto config = parse_config_json<TransformerConfig>(root, positions);
  config.validate();
  return config;
}

std::vector<std::pair<std::string, Shape>> expected_transformer_parameters(const nlohmann::json& root) {
  const TransformerConfig c = parse_transformer(root);
  std::vector<std::pair<std::string, Shape>> all{{"encoder.embed_tokens.weight", {c.source_vocabulary, c.width}}};
  if (!c.one_input_table()) all.push_back({"decoder.embed_tokens.weight", {c.target_vocabulary, c.width}});
  using Stack = std::pair<const char*, std::int64_t>;
  for (const auto& [stack, layers] : {Stack{"encoder", c.encoder_layers}, {"decoder", c.decoder_layers}})
    for (const std::int64_t layer : {std::int64_t(0), layers - 1})
      all.push_back({fmt::format("{}.layers.{}.fc1.weight", stack, layer), {c.ffn_width, c.width}});
  return all;
}

}  // namespace foldgrad
