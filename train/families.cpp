#include <fmt/format.h>

#include "models/cct/cct.h"
#include "models/gpt/gpt.h"
#include "models/images/model.h"
#include "models/vit/vit.h"
#include "train/config/config_json.h"
#include "train/tasks/classification/classification.h"
#include "train/tasks/language/language.h"
#include "train/tasks/translation/translation.h"

namespace foldgrad {
namespace {

// Functions of a configuration for the row of its family, an overload for each family.

void take_sizes(TransformerConfig& config, const DataSizes& sizes) {
  config.source_vocabulary = sizes.source_vocabulary, config.target_vocabulary = sizes.target_vocabulary;
  config.pad = kPad;
}

void take_sizes(ImageModelConfig& config, const DataSizes& sizes) {
  config.image_size = sizes.image_size;
  config.classes = std::int64_t(sizes.classes.size()), config.class_names = sizes.classes;
  config.pixels = sizes.pixels;
}

void take_sizes(GptConfig& config, const DataSizes& sizes) { config.vocabulary = sizes.target_vocabulary; }

// Return the configuration for the smallest data, with one layer. Throw std::invalid_argument if no data fits it.
TransformerConfig smallest(TransformerConfig config) {
  config.source_vocabulary = config.target_vocabulary = 8;
  config.validate();
  config.encoder_layers = config.decoder_layers = config.max_positions = 1;
  return config;
}

template <class ImageConfig>
ImageConfig smallest(ImageConfig config) {
  config.image_size = config.smallest_image(), config.classes = 2;
  config.validate();
  config.layers = 1;
  return config;
}

GptConfig smallest(GptConfig config) {
  config.vocabulary = 2;
  config.validate();
  config.layers = config.context = 1;
  return config;
}

// See Family::expected_parameters.
using ExpectedParameters = std::vector<std::pair<std::string, Shape>>;
ExpectedParameters expected_parameters(const TransformerConfig& c) {
  ExpectedParameters all{{"encoder.embed_tokens.weight", {c.source_vocabulary, c.width}}};
  if (!c.one_input_table()) all.push_back({"decoder.embed_tokens.weight", {c.target_vocabulary, c.width}});
  using Stack = std::pair<const char*, std::int64_t>;
  for (const auto& [stack, layers] : {Stack{"encoder", c.encoder_layers}, {"decoder", c.decoder_layers}})
    for (const std::int64_t layer : {std::int64_t(0), layers - 1})
      all.push_back({fmt::format("{}.layers.{}.fc1.weight", stack, layer), {c.ffn_width, c.width}});
  return all;
}

ExpectedParameters expected_parameters(const VitConfig& c) {
  ExpectedParameters all{{"patch_embed.proj.weight", {c.width, kImageChannels, c.patch, c.patch}},
                         {"pos_embed", {1, c.tokens(), c.width}},
                         {"head.weight", {c.classes, c.width}}};
  for (const std::int64_t layer : {std::int64_t(0), c.layers - 1})
    all.push_back({fmt::format("blocks.{}.mlp.fc1.weight", layer), {c.ffn_width, c.width}});
  return all;
}

ExpectedParameters expected_parameters(const CctConfig& c) {
  const std::string last = std::to_string(c.convs - 1);
  const std::int64_t in = c.convs > 1 ? c.channels(c.convs - 2) : kImageChannels;
  ExpectedParameters all{{"tokenizer.conv_layers." + last + ".0.weight", {c.width, in, c.kernel, c.kernel}},
                         {"classifier.positional_emb", {1, c.tokens(), c.width}},
                         {"classifier.fc.weight", {c.classes, c.width}}};
  for (const std::int64_t layer : {std::int64_t(0), c.layers - 1})
    all.push_back({fmt::format("classifier.blocks.{}.linear1.weight", layer), {c.ffn_width, c.width}});
  return all;
}

ExpectedParameters expected_parameters(const GptConfig& c) {
  ExpectedParameters all{{"wte.weight", {c.vocabulary, c.width}}};
  if (c.has_learned_positions()) all.push_back({"wpe.weight", {c.context, c.width}});
  for (const std::int64_t layer : {std::int64_t(0), c.layers - 1})
    all.push_back({fmt::format("h.{}.mlp.c_fc.weight", layer), {c.ffn_width, c.width}});
  return all;
}

// Makes the row of `M`, whose configuration is the member `keys` of ExperimentConfig.
template <class M, auto keys>
Family model_row(const char* name, const TaskKind& task) {
  using Config = std::remove_cvref_t<decltype(ExperimentConfig().*keys)>;
  return {.name = name,
          .task = &task,
          .config_json = [](const Model& model) { return config_json(static_cast<const M&>(model).config()); },
          .make_model = [](const nlohmann::json& config, DType dtype, Device device) -> std::unique_ptr<Model> {
            return std::make_unique<M>(parse_config_json<Config>(config), std::nullopt, dtype, device);
          },
          .expected_parameters =
              [](const nlohmann::json& config) { return expected_parameters(parse_config_json<Config>(config)); },
          .new_model = [](const ExperimentConfig& experiment, const DataSizes& sizes,
                          Device device) -> std::unique_ptr<Model> {
            Config config = experiment.*keys;
            take_sizes(config, sizes);
            return std::make_unique<M>(config, std::uint64_t(experiment.train.seed), DType::f32, device);
          },
          .smallest_model = [](const ExperimentConfig& experiment) -> std::unique_ptr<Model> {
            return std::make_unique<M>(smallest(experiment.*keys), std::nullopt);
          }};
}

}  // namespace

std::deque<Family> library_families() {
  return {model_row<Transformer, &ExperimentConfig::model>("transformer", kTranslation),
          model_row<Vit, &ExperimentConfig::vit>("vit", kClassification),
          model_row<Cct, &ExperimentConfig::cct>("cct", kClassification),
          model_row<Gpt, &ExperimentConfig::gpt>("gpt", kLanguage)};
}

}  // namespace foldgrad
