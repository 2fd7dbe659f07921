#include "train/tasks/vit_json.h"

#include "models/vit/vit.h"
#include "train/tasks/config_json.h"

namespace foldgrad {
namespace {

struct Keys {
  template <class Config, class Visitor>
  void operator()(Config& config, const Visitor& visitor) const {
    visit_vit_keys(config, visitor);
  }
};

}  // namespace

nlohmann::ordered_json vit_json(const VitConfig& config) {
  nlohmann::ordered_json all = config_json(config, Keys());
  if (!config.class_names.empty()) all["model"]["class_names"] = config.class_names;
  all["model"]["image_mean"] = config.pixels.mean;
  all["model"]["image_std"] = config.pixels.std;
  return all;
}

VitConfig parse_vit(const nlohmann::json& root) {
  const auto of_images = [](VitConfig& config, JsonSection& model) {
    model.read("class_names", config.class_names, false);
    model.read("image_mean", config.pixels.mean, false);
    model.read("image_std", config.pixels.std, false);
  };
  const auto config = parse_config_json<VitConfig>(root, Keys(), of_images);
  config.validate();
  return config;
}

std::vector<std::pair<std::string, Shape>> expected_vit_parameters(const nlohmann::json& root) {
  const VitConfig c = parse_vit(root);
  std::vector<std::pair<std::string, Shape>> all{
      {"patch_embed.proj.weight", {c.width, kImageChannels, c.patch, c.patch}},
      {"pos_embed", {1, c.tokens(), c.width}},
      {"head.weight", {c.classes, c.width}}};
  for (const std::int64_t layer : {std::int64_t(0), c.layers - 1})
    all.push_back({fmt::format("blocks.{}.mlp.fc1.weight", layer), {c.ffn_width, c.width}});
  return all;
}

}  // namespace foldgrad
