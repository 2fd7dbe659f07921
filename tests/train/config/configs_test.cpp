// The experiments in configs/.
#include <gtest/gtest.h>

#include <filesystem>

#include "models/transformer/transformer.h"
#include "train/config/config.h"
#include "train/tasks/classification.h"

namespace foldgrad {
namespace {

std::vector<std::filesystem::path> configs() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(FOLDGRAD_SOURCE_DIR "/configs"))
    paths.push_back(entry.path());
  return paths;
}

// With its normalizer in the name, where the name ends with one.
TEST(Configs, LoadAndMakeModels) {
  ASSERT_GE(configs().size(), 19u);
  for (const std::filesystem::path& path : configs()) {
    SCOPED_TRACE(path.string());
    ASSERT_EQ(path.extension(), ".toml");
    const ExperimentConfig config = read_config(path);
    const std::string name = path.stem();
    EXPECT_EQ(name.substr(name.rfind('-') + 1), config.blocks().normalizer);
    EXPECT_EQ(parse_config(config_text(config), "again"), config);
    if (config.of_images()) {
      EXPECT_GT(smallest_vit(config)->parameter_count(), 0);
      continue;
    }
    TransformerConfig model = config.model;
    model.source_vocabulary = model.target_vocabulary = 8;
    EXPECT_NO_THROW(model.validate());
    model.encoder_layers = model.decoder_layers = 1;  // for the sake of time
    model.width = model.ffn_width = 32;
    EXPECT_GT(Transformer(model, 1).parameter_count(), 0);
  }
}

// Runs that are to be compared differ in nothing but their normalizer.
TEST(Configs, OfOneTaskDifferByNormalizer) {
  std::map<std::string, ExperimentConfig> first;
  for (const std::filesystem::path& path : configs()) {
    const std::string name = path.stem();
    ExperimentConfig config = read_config(path);
    config.blocks().normalizer = "ln";
    config.blocks().normalizer_options = {};
    config.norm_options = {};
    const auto [found, is_new] = first.emplace(name.substr(0, name.rfind('-')), config);
    EXPECT_EQ(found->second, config) << path;
  }
  EXPECT_EQ(first.size(), 5u);
}

}  // namespace
}  // namespace foldgrad
