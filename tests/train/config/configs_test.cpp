// The experiments in configs/.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "models/normalizers/normalizer.h"
#include "models/transformer/transformer.h"
#include "models/vit/vit.h"
#include "train/config/config.h"
#include "train/runs/setup.h"
#include "train/tasks/families.h"

namespace foldgrad {
namespace {

std::vector<std::filesystem::path> configs() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(FOLDGRAD_SOURCE_DIR "/configs"))
    if (entry.is_regular_file() && entry.path().parent_path().stem() != "grids") paths.push_back(entry.path());
  return paths;
}

// The recipes of a grid are named after what they differ in.
bool is_of_grid(const std::filesystem::path& path) { return path.parent_path().stem() == "nft"; }

// Experiments are TASK-NORMALIZER.toml; a base is TASK.toml, whose normalizer is "".
struct Name {
  std::string task, normalizer;
};

Name name_of(const std::filesystem::path& path) {
  const std::string stem = path.stem(), last = stem.substr(stem.rfind('-') + 1);
  const bool experiment = std::ranges::count(normalizers(), last, &NormalizerInfo::name) > 0;
  return experiment ? Name{stem.substr(0, stem.rfind('-')), last} : Name{stem, ""};
}

TEST(Configs, LoadAndMakeModels) {
  ASSERT_GE(configs().size(), 64u);
  for (const std::filesystem::path& path : configs()) {
    SCOPED_TRACE(path.string());
    ASSERT_EQ(path.extension(), ".toml");
    const ExperimentConfig config = read_config(path);
    if (const Name name = name_of(path); !is_of_grid(path) && !name.normalizer.empty()) {
      EXPECT_EQ(name.normalizer, config.blocks().normalizer);
    }
    EXPECT_EQ(parse_config(config_text(config), "again"), config);
    EXPECT_NO_THROW(require_trainable(config));
    // No checkpoint of a recipe is chosen by the images that it is scored on.
    if (family(config.family).task == family("vit").task) {
      EXPECT_GT(config.images.valid_images, 0);
      EXPECT_GT(smallest_model(config)->parameter_count(), 0);
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
    if (is_of_grid(path)) continue;
    ExperimentConfig config = read_config(path);
    config.blocks().normalizer = "ln";
    config.blocks().normalizer_options = {};
    config.norm_options = {};
    const auto [found, is_new] = first.emplace(name_of(path).task, config);
    EXPECT_EQ(found->second, config) << path;
  }
  EXPECT_EQ(first.size(), 9u);
}

// The keys in which a recipe of the grid differs from that with layer normalization before each sublayer.
TEST(Configs, OfTheGridDifferInWhatTheirNamesSay) {
  const std::string grid = FOLDGRAD_SOURCE_DIR "/configs/nft/";
  const ExperimentConfig base = read_config(grid + "pre-ln.toml");
  const auto keys = [&](const std::string& name) {
    std::vector<std::string> changed;
    for (const std::string& change : trajectory_changes(base, read_config(grid + name + ".toml")))
      if (!change.starts_with("norm.ln.") && !change.starts_with("norm.none.")) changed.push_back(change);
    return changed;
  };
  using Changes = std::vector<std::string>;
  const std::string none = "norm.name: \"ln\" before, \"none\" now",
                    standardized = "model.weight_standardization: false before, true now";
  EXPECT_EQ(keys("post-ln"), Changes{"model.pre_norm: true before, false now"});
  EXPECT_EQ(keys("none"), Changes{none});
  EXPECT_EQ(keys("none-ws"), (Changes{standardized, none}));
  EXPECT_EQ(keys("none-ws-agc"), (Changes{standardized, none, "train.agc: 0 before, 0.1 now"}));
  EXPECT_EQ(keys("none-tfixup"), (Changes{"model.initialization: \"pytorch\" before, \"tfixup\" now",
                                          "model.tfixup_scope: \"v_out_ffn\" before, \"all\" now", none}));
  // 12 layers of 384 channels without normalizers have 21,309,322 parameters; with gains for 3 384 + 384 + 1536 + 384
  // rows of each layer 41,472 more.
  VitConfig config = read_config(grid + "none-ws.toml").vit;
  config.classes = 10;
  EXPECT_EQ(Vit(config, std::nullopt).parameter_count(), 21309322 + 41472);
}

}  // namespace
}  // namespace foldgrad
