// Tests configuration files: files with a base, the repository's own files, and the keys that the docs describe.
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "engine/files/file.h"
#include "models/gpt/config.h"
#include "models/normalizers/normalizer.h"
#include "models/transformer/transformer.h"
#include "models/vit/vit.h"
#include "tests/train/program.h"
#include "train/config/config.h"
#include "train/runs/setup.h"
#include "train/tasks/classification/config.h"
#include "train/tasks/families.h"
#include "train/tasks/translation/config.h"

namespace foldgrad::testing {
namespace {

struct ConfigFiles : FileTest {
  ExperimentConfig read(const std::string& name) { return read_config(files_ / name); }
  std::string refusal(const std::string& name) {
    return error_of<ConfigError>([&] { read(name); });
  }
};

TEST(ConfigText, OptionsGivenAsTextAreNumbersOfToml) {
  const ExperimentConfig c =
      parse_config("norm.name = 'un'\nnorm.un.eps = '1.e-5'\n", "a.toml", {"norm.un.alpha=.9", "norm.un.window=02"});
  EXPECT_EQ(c.norm_options.at("un").at("alpha"), "0.9");
  EXPECT_EQ(c.norm_options.at("un").at("window"), "2");
  EXPECT_EQ(parse_config(config_text(c), "config.toml"), c);
}

TEST(ConfigText, DotsInStringsAndCommentsAreNotCounted) {
  ExperimentConfig c;
  c.train.freeze.assign(40, "encoder.layers.0.self_attn.q_proj.weight");
  EXPECT_EQ(parse_config(config_text(c), "config.toml"), c);
  const std::string list = fmt::format("['{}']", fmt::join(c.train.freeze, "', '"));
  EXPECT_EQ(parse_config("", "a.toml", {"train.freeze=" + list}).train.freeze, c.train.freeze);
  EXPECT_NO_THROW(parse_config("# " + std::string(101, '.') + "\n", "a.toml"));
}

TEST_F(ConfigFiles, GiveWhatDiffersFromTheirBase) {
  write("base.toml", "[train]\nlr = 1\nseed = 7\n[norm.un]\nwindow = 2\nwarmup = 3\n");
  write("middle.toml", "base = \"base.toml\"\nnorm.name = 'un'\nnorm.un.window = 6\ntrain.lr = 2\n");
  write("more/last.toml", "base = '../middle.toml'\n[train]\nlr = 3\n[data]\ntest = 'base'\n");
  const ExperimentConfig c = read("more/last.toml");
  EXPECT_EQ(c.train.lr, 3);
  EXPECT_EQ(c.train.seed, 7);
  EXPECT_EQ(c.data.as<DataConfig>().test, "base");
  EXPECT_EQ(c.blocks().normalizer_options, (std::map<std::string, std::string>{{"window", "6"}, {"warmup", "3"}}));
  EXPECT_EQ(read("middle.toml").train.lr, 2);
  EXPECT_EQ(parse_config(config_text(c), "whole.toml"), c);
  EXPECT_EQ(read_config(files_ / "more/last.toml", {"train.lr=4"}).train.lr, 4);
  EXPECT_THROW(read("absent.toml"), FileError);
}

TEST_F(ConfigFiles, NameBothPlacesOfValuesThatDoNotGoTogether) {
  write("a.toml", "[train]\nschedule = 'cosine'\nsteps = 60\n\nwarmup = 50\nlr = 0.5\n");
  const auto refused = [&](const std::vector<std::string>& settings) {
    return message<ConfigError>([&] { parse_config(bytes("a.toml"), "a.toml", settings); });
  };
  EXPECT_EQ(refused({}), "no error");
  EXPECT_EQ(refused({"train.steps=50"}),
            "--set train.steps: train.steps = 50 must be above the warm-up, train.warmup = 50 (a.toml:5)");
  EXPECT_EQ(refused({"train.warmup=60"}),
            "--set train.warmup: train.steps = 60 (a.toml:3) must be above the warm-up, train.warmup = 60");
  EXPECT_EQ(refused({"train.initial_lr=1"}),
            "--set train.initial_lr: train.initial_lr = 1 must be at most train.lr = 0.5 (a.toml:6)");
  EXPECT_EQ(refused({"train.minimum_lr=1"}),
            "--set train.minimum_lr: train.minimum_lr = 1 must be at most train.lr = 0.5 (a.toml:6)");
  EXPECT_EQ(message<ConfigError>(
                [] { parse_config("train.schedule='cosine'\ntrain.warmup_epochs=3\n", "b.toml", {"train.epochs=3"}); }),
            "--set train.epochs: train.epochs = 3 must be above the warm-up, train.warmup_epochs = 3 (b.toml:2)");
  EXPECT_EQ(message<ConfigError>([] { parse_config("train.lr=1e-8\n", "c.toml", {}); }),
            "c.toml:1: train.initial_lr = 1e-07 (its default) must be at most train.lr = 1e-08");
}

TEST_F(ConfigFiles, RefuseNoWarmUpWhereTheRateFollowsFromIt) {
  EXPECT_EQ(message<ConfigError>([] { parse_config("train.warmup = 0\n", "a.toml", {}); }),
            "a.toml:1: train.warmup must be at least 1 with train.schedule = \"inverse_sqrt\", got 0");
  EXPECT_EQ(parse_config("train.warmup = 0\ntrain.schedule = 'constant'\n", "a.toml", {}).train.warmup, 0);
}

TEST_F(ConfigFiles, NameTheFileInWhichAValueStands) {
  write("base.toml", "[train]\n\nlr = 0\nsteps = 3\n");
  write("same.toml", "base = 'base.toml'\n");
  write("own.toml", "base = 'base.toml'\ntrain.lr = -1\n");
  write("epochs.toml", "base = 'base.toml'\ntrain.lr = 1\ntrain.epochs = 2\n");
  EXPECT_EQ(refusal("same.toml"), "@base.toml:3: train.lr must be a number above 0, got 0");
  EXPECT_EQ(refusal("own.toml"), "@own.toml:2: train.lr must be a number above 0, got -1");
  EXPECT_EQ(refusal("epochs.toml"),
            "@base.toml:4: set train.steps or train.epochs, not both; train.epochs is 2, and 0 turns epochs off");
}

TEST_F(ConfigFiles, RefuseBasesThatAreNone) {
  write("circle.toml", "# a comment\nbase = 'next.toml'\n");
  write("next.toml", "base = './circle.toml'\n");
  write("itself.toml", "base = 'itself.toml'\n");
  write("absent.toml", "\nbase = 'x.toml'\n");
  write("number.toml", "base = 1\n");
  write("empty.toml", "base = ''\n");
  write("broken.toml", "base = 'no.toml'\n");
  write("no.toml", "\n=\n");
  EXPECT_EQ(refusal("circle.toml"), "@next.toml:1: base forms a cycle: @circle.toml -> @next.toml -> @./circle.toml");
  EXPECT_EQ(refusal("itself.toml"), "@itself.toml:1: base forms a cycle: @itself.toml -> @itself.toml");
  EXPECT_EQ(refusal("absent.toml"), "@absent.toml:2: base: @x.toml: cannot be opened: No such file or directory");
  EXPECT_EQ(refusal("number.toml"), "@number.toml:1: base must be the path of a configuration, got 1");
  EXPECT_EQ(refusal("empty.toml"), "@empty.toml:1: base must be the path of a configuration, got \"\"");
  EXPECT_TRUE(begins(refusal("broken.toml"), "@no.toml:2: "));
  write("typo.toml", "bse = 'no.toml'\n");
  EXPECT_EQ(refusal("typo.toml"), "@typo.toml:1: there is no key bse; did you mean base?");
}

std::vector<std::filesystem::path> configs() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(FOLDGRAD_SOURCE_DIR "/configs"))
    if (entry.is_regular_file() && entry.path().parent_path().stem() != "grids") paths.push_back(entry.path());
  return paths;
}

// Returns true for the recipes of the grid configs/nft. Their file names describe their settings, and need not end with
// a normalizer.
bool is_of_grid(const std::filesystem::path& path) { return path.parent_path().stem() == "nft"; }

// The parts of a configuration's file name: TASK-NORMALIZER.toml for an experiment, TASK.toml for a base. For a base,
// `normalizer` is empty.
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
    // Every recipe holds out training images for validation, so that no checkpoint is chosen by the test images.
    if (family(config.family).task == family("vit").task) {
      EXPECT_GT(config.data.as<ImageConfig>().valid_images, 0);
    }
    if (config.family != "transformer") {
      EXPECT_GT(smallest_model(config)->parameter_count(), 0);
      continue;
    }
    TransformerConfig model = config.model.as<TransformerConfig>();
    model.source_vocabulary = model.target_vocabulary = 8;
    EXPECT_NO_THROW(model.validate());
    model.encoder_layers = model.decoder_layers = 1;  // a small model saves time
    model.width = model.ffn_width = 32;
    EXPECT_GT(Transformer(model, 1).parameter_count(), 0);
  }
}

// Experiments with the same task must differ only in their normalizer, so that their runs can be compared.
TEST(Configs, OfOneTaskDifferByNormalizer) {
  std::map<std::string, ExperimentConfig> first;
  for (const std::filesystem::path& path : configs()) {
    if (is_of_grid(path)) continue;
    ExperimentConfig config = read_config(path);
    config.blocks().normalizer = "ln";
    config.blocks().normalizer_options = {};
    config.norm_options = {};
    // docs-llama-dyt.toml multiplies the embeddings by a learned number; docs-llama-rmsnorm.toml does not.
    if (config.family == "gpt") config.model.as<GptConfig>().scaled_embedding = false;
    const auto [found, is_new] = first.emplace(name_of(path).task, config);
    EXPECT_EQ(found->second, config) << path;
  }
  EXPECT_EQ(first.size(), 18u);
}

// The base of the grid is pre-ln.toml, with layer normalization before each sublayer. Each other recipe must differ
// from the base only in the keys that the recipe's name mentions.
TEST(Configs, OfTheGridDifferInWhatTheirNamesSay) {
  const std::string grid = FOLDGRAD_SOURCE_DIR "/configs/nft/";
  const ExperimentConfig base = read_config(grid + "pre-ln.toml");
  const auto keys = [&](const std::string& name) {
    std::vector<std::string> changed;
    for (const std::string& change : trajectory_changes(base, read_config(grid + name + ".toml")))
      if (!change.starts_with("norm.ln.") && !change.starts_with("norm.none.")) changed.push_back(change);
    return changed;
  };
  EXPECT_EQ(base.data.as<ImageConfig>().fill, CropFill::zero);
  using Changes = std::vector<std::string>;
  const std::string none = "norm.name was \"ln\" and is now \"none\"",
                    standardized = "model.weight_standardization was false and is now true";
  EXPECT_EQ(keys("post-ln"), Changes{"model.pre_norm was true and is now false"});
  EXPECT_EQ(keys("none"), Changes{none});
  EXPECT_EQ(keys("none-ws"), (Changes{standardized, none}));
  EXPECT_EQ(keys("none-ws-agc"), (Changes{standardized, none, "train.agc was 0 and is now 0.1"}));
  EXPECT_EQ(keys("none-agc"), (Changes{none, "train.agc was 0 and is now 0.1"}));
  EXPECT_EQ(keys("none-clip"), (Changes{none, "train.clip was 0 and is now 1"}));
  EXPECT_EQ(keys("none-tfixup"), (Changes{"model.initialization was \"pytorch\" and is now \"tfixup\"",
                                          "model.tfixup_scope was \"v_out_ffn\" and is now \"all\"", none}));
  // Without normalizers and gains, a ViT with 12 layers of 384 channels has 21,309,322 parameters. In each layer, gains
  // for the 3 * 384 + 384 + 1536 + 384 rows of all matrices add 3,456 parameters, 41,472 in total. A smaller scope adds
  // fewer.
  VitConfig config = read_config(grid + "none-ws.toml").model.as<VitConfig>();
  config.classes = 10;
  for (const auto& [scope, gains] : {std::pair("all", 41472), {"qkv_fc1", 32256}, {"out_ffn", 27648}, {"ffn", 23040}}) {
    config.standardization_scope = scope;
    EXPECT_EQ(Vit(config, std::nullopt).parameter_count(), 21309322 + gains) << scope;
  }
}

TEST(Config, EpochsStandInThePlaceOfUpdates) {
  const ExperimentConfig c = parse_config("[train]\nepochs = 3\nwarmup_epochs = 1\n", "a.toml");
  EXPECT_EQ(c.train.epochs, 3);
  const std::string text = config_text(c);
  EXPECT_FALSE(contains(text.substr(0, text.find("[record]")), "\nsteps = "));
  EXPECT_FALSE(contains(config_text(c), "\nwarmup = "));
  EXPECT_EQ(parse_config(config_text(c), "a.toml"), c);
  const std::string updates = "[train]\nsteps = 7\nwarmup = 2\n";
  const auto refused = [&](const char* setting) {
    return message<ConfigError>([&] { parse_config(updates, "a.toml", {setting}); });
  };
  EXPECT_EQ(refused("train.epochs=3"),
            "a.toml:2: set train.steps or train.epochs, not both; train.epochs is 3, and 0 turns epochs off");
  EXPECT_EQ(
      refused("train.warmup_epochs=1"),
      "a.toml:3: set train.warmup or train.warmup_epochs, not both; train.warmup_epochs is 1, and 0 turns epochs off");
  EXPECT_EQ(parse_config("[train]\nepochs = 3\n", "a.toml", {"train.epochs=0", "train.steps=7"}).train.steps, 7);
}

// Returns the table rows of docs/training.md that begin with a key: "| `train.lr` | ...".
std::set<std::string> documented_rows() {
  std::set<std::string> rows;
  for (const std::string& line : lines_of(read_bytes(FOLDGRAD_SOURCE_DIR "/docs/training.md")))
    if (line.starts_with("| `") && contains(line, "` |")) rows.insert(line);
  return rows;
}

// Returns each key's default as TOML text.
std::map<std::string, std::string> texts_of(const ExperimentConfig& defaults) {
  std::map<std::string, std::string> texts;
  std::string section;
  for (const std::string& line : lines_of(config_text(defaults))) {
    const std::size_t equal = line.find(" = ");
    if (!line.empty() && line[0] == '[') section = line.substr(1, line.size() - 2);
    if (equal != std::string::npos) texts[section + "." + line.substr(0, equal)] = line.substr(equal + 3);
  }
  return texts;
}

TEST(TrainingDocs, HaveEveryKeyOfTheConfiguration) {
  std::set<std::string> rows;
  for (const std::string& family : family_names()) {
    const ExperimentConfig defaults(family);
    const std::map<std::string, std::string> texts = texts_of(defaults);
    for (const auto& [key, value] : keys_of(defaults)) {
      if (key.full_name() == "model.family" && defaults.family != ExperimentConfig().family) continue;
      const std::string name = key.full_name();
      const bool decides =
          key.trajectory || name == "train.steps" || name == "train.epochs";  // if the schedule is cosine
      rows.insert(fmt::format("| `{}` | {}{} | {} | {}{} |", key.full_name(), key.values(),
                              key.unit.empty() ? "" : ", " + key.unit, texts.at(key.full_name()), key.help,
                              decides ? " *" : ""));
    }
  }
  const std::set<std::string> documented = documented_rows();
  for (const std::string& row : rows) EXPECT_TRUE(documented.count(row)) << "missing in docs/training.md: " << row;
  for (const std::string& row : documented) EXPECT_TRUE(rows.count(row)) << "wrong in docs/training.md: " << row;
}

TEST(ConfigCommand, ListsKeysAndFillsInDefaults) {
  const ProgramResult all = run_program("config"), one = run_program("config --set train.lr=0.25"),
                      wrong = run_program("config --set train.lrr=0.25");
  EXPECT_EQ(all.out, config_help());
  ExperimentConfig config;
  config.train.lr = 0.25;
  EXPECT_EQ(one.out, config_text(config));
  EXPECT_EQ(wrong.exit_code, 2);
  const ProgramResult file = run_program("config configs/numbers-un.toml");
  EXPECT_EQ(file.exit_code, 0) << file.err;
  EXPECT_EQ(file.out, config_text(read_config("configs/numbers-un.toml")));
}

}  // namespace
}  // namespace foldgrad::testing
