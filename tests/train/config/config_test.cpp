#include "train/config/config.h"

#include <cmath>
#include <tuple>

#include "models/vit/config.h"
#include "tests/engine/error_message.h"
#include "tests/harness/file_test.h"
#include "tests/harness/properties.h"
#include "train/tasks/classification/config.h"
#include "train/tasks/translation/config.h"

namespace foldgrad::testing {
namespace {

using Settings = std::vector<std::string>;

std::string refusal(const std::string& text, const Settings& settings = {}) {
  return message<ConfigError>([&] { parse_config(text, "a.toml", settings); });
}

DataConfig text_keys(const ExperimentConfig& config) { return config.data.as<DataConfig>(); }

TEST(Config, TakesDefaultsThenTheFileThenSettings) {
  const std::string text = "[train]\nlr = 1e-3\nsteps = 7\n[data]\nsource = 'fr'\n";
  const ExperimentConfig file = parse_config(text, "a.toml");
  EXPECT_EQ(file.train.lr, 1e-3);
  EXPECT_EQ(file.train.steps, 7);
  EXPECT_EQ(text_keys(file).source, "fr");
  EXPECT_EQ(file.train.warmup, 4000);
  EXPECT_EQ(parse_config("", "a.toml", {"train.clip=9377919126514858"}).train.clip, 9377919126514858.0);
  const ExperimentConfig set =
      parse_config(text, "a.toml", {"train.lr=3", "train.lr=2", "data.source=it", "data.target=\"a b\""});
  EXPECT_EQ(set.train.lr, 2);
  EXPECT_EQ(set.train.steps, 7);
  EXPECT_EQ(text_keys(set).source, "it");
  EXPECT_EQ(text_keys(set).target, "a b");
  const ExperimentConfig signed_zero = parse_config("[train]\nminimum_lr = -0.0\n", "a.toml");
  EXPECT_TRUE(std::signbit(signed_zero.train.minimum_lr));
  EXPECT_TRUE(std::signbit(parse_config(config_text(signed_zero), "a.toml").train.minimum_lr));
  EXPECT_EQ(text_keys(parse_config("", "a.toml", {"data.train=2014"})).train, "2014");
  EXPECT_EQ(text_keys(parse_config("", "a.toml", {"data.bpe_codes="})).bpe_codes, "");
  EXPECT_EQ(text_keys(parse_config("", "a.toml", {"data.bpe_codes=a=b"})).bpe_codes, "a=b");
}

TEST(Config, ReadsTheOptionsOfNormalizers) {
  const ExperimentConfig c = parse_config("[norm]\nname = 'un'\n[norm.un]\nwindow = 2\n[norm.rmsnorm]\neps = 1e-3\n",
                                          "a.toml", {"norm.un.warmup=9"});
  EXPECT_EQ(c.blocks().normalizer, "un");
  using Options = std::map<std::string, std::string>;
  EXPECT_EQ(c.blocks().normalizer_options, (Options{{"window", "2"}, {"warmup", "9"}}));
  EXPECT_EQ(c.norm_options.at("rmsnorm"), (Options{{"eps", "0.001"}}));
  for (const auto& [text, flag] : {std::pair{"0", "false"}, {"-0.0", "false"}, {"1", "true"}, {"true", "true"}})
    EXPECT_EQ(parse_config(fmt::format("[norm.un]\nfiltration = {}\n", text), "a.toml").norm_options.at("un"),
              (Options{{"filtration", flag}}))
        << text;
}

// Configuration files of older runs contain norm.mask and norm.un.mask.
TEST(Config, FormerKeysHaveOneValue) {
  EXPECT_EQ(config_text(parse_config("[norm]\nmask = true\nun.mask = 'valid'", "a.toml",
                                     {"norm.mask=true", "norm.un.mask=valid"})),
            config_text(ExperimentConfig()));
  EXPECT_EQ(refusal("norm.mask = false\n"),
            "a.toml:1: norm.mask is no longer a key, since models do not compute padding; remove it");
  EXPECT_EQ(refusal("", {"norm.un.mask=all"}),
            "--set norm.un.mask: norm.un.mask is no longer a key, since models do not compute padding; remove it");
}

TEST(Config, NamesTheNearestKey) {
  EXPECT_EQ(refusal("[train]\n\nlearn_rate = 1\nlabel_smothing = 0.1\n"),
            "a.toml:4: there is no key train.label_smothing; did you mean train.label_smoothing?");
  EXPECT_EQ(refusal("", {"train.wamrup=1"}),
            "--set train.wamrup: there is no key train.wamrup; did you mean train.warmup?");
  EXPECT_EQ(refusal("[norm]\nname = 'unn'\n").substr(0, 73),
            "a.toml:2: there is no normalizer \"unn\"; did you mean \"un\"? There are: aff");
  EXPECT_EQ(refusal("[norm.lm]\neps = 1\n").substr(0, 72),
            "a.toml:2: there is no normalizer \"lm\"; did you mean \"ln\"? There are: aff");
  EXPECT_EQ(refusal("[norm.ln]\n\nepps = 1\n").substr(0, 63),
            "a.toml:3: ln: there is no option \"epps\"; did you mean \"eps\"? It");
}

TEST(Config, NamesLineTypeAndRange) {
  EXPECT_EQ(refusal("[train]\nlr = 'high'\n"), "a.toml:2: train.lr must be a number above 0, got \"high\"");
  EXPECT_EQ(refusal("[train]\nlr = 0\n"), "a.toml:2: train.lr must be a number above 0, got 0");
  EXPECT_EQ(refusal("[train]\nlr = nan\n"), "a.toml:2: train.lr must be a number above 0, got nan");
  EXPECT_EQ(refusal("[train]\nlr = inf\n"), "a.toml:2: train.lr must be a number above 0, got inf");
  EXPECT_EQ(refusal("[train]\nclip = inf\n"), "a.toml:2: train.clip must be a number of at least 0, got inf");
  EXPECT_EQ(refusal("[train]\nsteps = 1.5\n"), "a.toml:2: train.steps must be an integer of at least 1, got 1.5");
  EXPECT_EQ(refusal("[model]\ndropout = 1\n"), "a.toml:2: model.dropout must be a number in [0, 1), got 1");
  EXPECT_EQ(refusal("[model]\npre_norm = 1\n"), "a.toml:2: model.pre_norm must be true or false, got 1");
  EXPECT_EQ(refusal("[data]\nsource = 1\n"), "a.toml:2: data.source must be text, got 1");
  EXPECT_EQ(refusal("[train]\nfreeze = 'a'\n"), "a.toml:2: train.freeze must be a list of text, got \"a\"");
  EXPECT_EQ(refusal("[train]\nfreeze = ['a', 1]\n"), "a.toml:2: train.freeze must be a list of text, got 1");
  EXPECT_EQ(refusal("[train]\nsteps = [1]\n"), "a.toml:2: train.steps must be an integer of at least 1, got an array");
  EXPECT_EQ(refusal("[train]\noptimizer = 'lamb'\n"),
            "a.toml:2: train.optimizer must be one of adam, adamw, sgd, got \"lamb\"");
  EXPECT_EQ(refusal("", {"train.lr=5e-4x"}), "--set train.lr: train.lr must be a number above 0, got \"5e-4x\"");
  EXPECT_EQ(refusal("", {"train.steps=1\nx=2"}),
            "--set train.steps: train.steps must be an integer of at least 1, got \"1\\nx=2\"");
  EXPECT_EQ(refusal("", {"data.source=\xff"}), "--set data.source: data.source must be UTF-8");
  EXPECT_EQ(refusal("", {"lr=1"}), "--set lr=1: must be SECTION.KEY=VALUE");
  EXPECT_EQ(refusal("", {"train.lr"}), "--set train.lr: must be SECTION.KEY=VALUE");
  EXPECT_EQ(refusal("train = 1\n"), "a.toml:1: there is no key train; did you mean data.train?");
  EXPECT_EQ(refusal("[norm.ln]\neps = -1\n"), "a.toml:2: ln: eps must be a number in (0, 1], got \"-1\"");
  EXPECT_EQ(refusal("[norm.ln]\neps = [1]\n"),
            "a.toml:2: norm.ln.eps must be a number, true, false or text, got an array");
  EXPECT_EQ(refusal("[train]\nlr = 1\nlr = 2\n").substr(0, 10), "a.toml:3: ");
}

TEST(Config, AKeyOfAHundredThousandPartsIsAnErrorNotACrash) {
  std::string key = "a";
  for (int i = 0; i < 100'000; ++i) key += ".a";
  for (const std::string& text : {key + " = 1\n", "[" + key + "]\n", "x = {" + key + " = 1}\n"})
    EXPECT_EQ(refusal("\n" + text), "a.toml:2: a line must have at most 100 dots");
  EXPECT_EQ(refusal("", {"train.lr={" + key + "=1}"}).substr(0, 52),
            "--set train.lr: train.lr must be a number above 0, g");
  // The key comes after strings and comments that might hide it.
  for (const std::string before :
       {R"('"')", R"("\"'\\")", R"(''''''')", R"("""\""""")", "'''\n'''''", "1, #'\n2", "''"})
    EXPECT_TRUE(refusal("[[x]]\ny = [" + before + ", {" + key + " = 1}]\n").ends_with("must have at most 100 dots"))
        << before;
  const std::string path = "../../../../../../../../../../../a";
  EXPECT_EQ(text_keys(parse_config("", "a.toml", {"data.directory=" + path})).directory, path);
}

// Both ends of a range are allowed; values outside it are rejected.
TEST(Config, SizesHaveTwoEnds) {
  constexpr std::int64_t kMost = 2147483647;
  const std::tuple<const char*, std::int64_t, std::int64_t> rows[] = {
      {"width", 4, kMost},          {"ffn_width", 1, kMost},      {"heads", 1, kMost},
      {"encoder_layers", 1, kMost}, {"decoder_layers", 1, kMost}, {"max_positions", 1, 1000000}};
  for (const auto& [key, least, most] : rows)
    for (const std::int64_t value : {least - 1, least, most, most + 1}) {
      const std::string said = refusal(fmt::format("[model]\n{} = {}\n", key, value)),
                        want = fmt::format("a.toml:2: model.{} must be an integer ", key);
      EXPECT_EQ(said.substr(0, want.size()), least <= value && value <= most ? "no error" : want);
    }
}

TEST(Config, TheDefaultsAreInTheirRanges) {
  const ExperimentConfig defaults;
  EXPECT_EQ(parse_config(config_text(defaults), "a.toml"), defaults);
  const std::string help = config_help();
  EXPECT_TRUE(contains(help, "  lr                  Peak learning rate: a number above 0 (default 0.0005)\n"));
  EXPECT_TRUE(contains(
      help, "  every               Updates between validations: an integer of at least 1, updates (default 1000)\n"));
}

// Sets a key to a random value of its type and range.
struct Arbitrary {
  void operator()(std::int64_t& field, const ConfigKey& key) const {
    const std::int64_t v = *rc::gen::arbitrary<std::int64_t>();
    field = key.range.contains(double(v)) ? v : std::int64_t(key.range.low);
  }
  void operator()(double& field, const ConfigKey& key) const {
    const double v = std::abs(*rc::gen::arbitrary<double>());
    field = key.range.contains(v) ? v : std::max(0.25, key.range.low);
  }
  void operator()(std::vector<std::int64_t>& field, const ConfigKey&) const {
    field = *rc::gen::arbitrary<std::vector<std::int64_t>>();
  }
  void operator()(bool& field, const ConfigKey&) const { field = *rc::gen::arbitrary<bool>(); }
  void operator()(std::string& field, const ConfigKey& key) const {
    if (key.full_name() == "model.family") {
      field = *rc::gen::element<std::string>("transformer", "vit", "cct", "gpt", "another");
    } else if (key.full_name() == "norm.name") {
      field = *rc::gen::element<std::string>("un", "bn", "dyt", "ln");
    } else if (!key.choices.empty()) {
      field = *rc::gen::elementOf(key.choices);
    } else {
      field = *rc::gen::container<std::string>(rc::gen::inRange<char>(0, 127)) +
              *rc::gen::element<std::string>("", "\x7f", "\u00e9\U0001f600");
    }
  }
  void operator()(std::vector<std::string>& field, const ConfigKey& key) const {
    field.resize(*rc::gen::inRange<std::size_t>(0, 3));
    for (std::string& text : field) (*this)(text, key);
  }
};

// Makes the learning rates consistent, and the warm-up shorter than the training.
void fit(TrainConfig& t) {
  t.initial_lr = std::min(t.initial_lr, t.lr), t.minimum_lr = std::min(t.minimum_lr, t.lr);
  if (t.epochs > 0) t.warmup_epochs = std::min(t.warmup_epochs, t.epochs - 1);
  if (t.epochs == 0 && t.warmup_epochs == 0) t.warmup = std::min(t.warmup, t.steps - 1);
  if (t.schedule == ScheduleShape::inverse_sqrt) t.warmup = std::max<std::int64_t>(t.warmup, 1);
}

RC_GTEST_PROP(Config, WhatIsWrittenReadsBackTheSame, ()) {
  ExperimentConfig c;
  visit_config(c, Arbitrary());
  fit(c.train);
  if (*rc::gen::arbitrary<bool>()) c.norm_options["un"] = {{"window", "3"}};
  if (*rc::gen::arbitrary<bool>()) c.norm_options["ln"] = {{"eps", "1e-06"}};
  if (const auto found = c.norm_options.find(c.blocks().normalizer); found != c.norm_options.end())
    c.blocks().normalizer_options = found->second;
  const std::string text = config_text(c);
  const ExperimentConfig again = parse_config(text, "a.toml");
  RC_ASSERT(config_text(again) == text);
  RC_ASSERT(again == c);
  RC_ASSERT(config_hash(again) == config_hash(c));
}

TEST(Config, AFamilyHasTheKeysOfItsModelDataAndValidation) {
  const ExperimentConfig c = parse_config(
      "[model]\npatch = 2\nfamily = \"vit\"\n[norm]\nname = \"un\"\n[norm.un]\nwindow = 3\n[train]\nbatch = 8",
      "a.toml");
  EXPECT_EQ(c.model.as<VitConfig>().patch, 2);
  EXPECT_EQ(c.data.as<ImageConfig>().batch, 8);
  EXPECT_EQ(c.data_directory(), "");
  EXPECT_EQ(c.blocks().normalizer, "un");
  EXPECT_EQ(c.blocks().normalizer_options.at("window"), "3");
  EXPECT_EQ(refusal("[model]\nfamily = \"vit\"\nencoder_layers = 2"),
            "a.toml:3: model.encoder_layers is a key of model.family = \"transformer\", not of \"vit\"");
  EXPECT_EQ(refusal("[validate]\nbeam = 2\n[model]\nfamily = \"vit\""),
            "a.toml:2: validate.beam is a key of model.family = \"transformer\", not of \"vit\"");
  EXPECT_EQ(refusal("[train]\nbatch = 2"),
            "a.toml:2: train.batch is a key of model.family = \"vit\", not of \"transformer\"");
  EXPECT_EQ(refusal("[model]\nfamily = \"vit\"\npatsh = 2"),
            "a.toml:3: there is no key model.patsh; did you mean model.patch?");
}

// For each family after the first, the help lists a key only if its line differs from the line of the previous family.
TEST(Config, TheHelpOfAFamilyIsWhatDiffersFromTheOneBefore) {
  const std::string help = config_help(), header = "With model.family = \"cct\", these keys differ from those above:";
  const std::size_t at = help.find(header);
  ASSERT_NE(at, std::string::npos);
  const std::string cct = help.substr(at, help.find("With model.family", at + 1) - at);
  // The help shows this default because ViT, the previous family, has another default. `transformer`, an earlier
  // family, has the same default, but this does not matter.
  EXPECT_TRUE(contains(
      cct, "  attention_dropout   Dropout rate for attention probabilities: a number in [0, 1) (default 0.1)"));
  EXPECT_FALSE(contains(cct, "  batch "));
  EXPECT_EQ(help.find("  family "), help.rfind("  family "));  // the key is listed only once
  EXPECT_LT(help.find("  family "), at);
}

// At their defaults, the keys below do not enter the hash. So runs that began before these keys existed can be resumed.
TEST(Config, AtTheirDefaultsKeysThatAreNewerThanFilesAreNotOfTheHash) {
  const auto keys = trajectory_keys(ExperimentConfig());
  for (const char* key : {"train.epochs", "train.warmup_epochs", "train.no_decay", "train.average_statistics",
                          "train.from", "train.head", "train.reset_iterations", "train.rates", "train.freeze"})
    EXPECT_FALSE(keys.count(key)) << key;
  const auto changes = [](const std::string& setting) {
    return trajectory_changes(ExperimentConfig(), parse_config("", "a.toml", {setting}));
  };
  EXPECT_EQ(changes("train.no_decay=vectors"), Settings{"train.no_decay was absent and is now \"vectors\""});
  EXPECT_EQ(changes("train.average_statistics=true"), Settings{"train.average_statistics was absent and is now true"});
  EXPECT_EQ(changes("train.epochs=2"), Settings());
  const ExperimentConfig vit = parse_config("model.family = 'vit'\n", "a.toml", {}),
                         black = parse_config("model.family = 'vit'\n", "a.toml", {"data.fill=zero"});
  EXPECT_EQ(trajectory_changes(vit, black), Settings{"data.fill was absent and is now \"zero\""});
  EXPECT_FALSE(trajectory_keys(vit).count("model.standardization_scope"));
}

TEST(Config, TheHashIsOfWhatDecidesTheTrainedNumbers) {
  const std::string base = config_hash(ExperimentConfig());
  const auto hash = [](const std::string& setting) { return config_hash(parse_config("", "a.toml", {setting})); };
  EXPECT_EQ(base.size(), 64u);
  EXPECT_EQ(hash("train.steps=9"), base);
  EXPECT_EQ(hash("output.keep=9"), base);
  EXPECT_EQ(hash("norm.un.window=9"), base);  // the normalizer is ln
  EXPECT_NE(hash("train.seed=9"), base);
  EXPECT_NE(hash("norm.ln.eps=0.5"), base);
  const auto keys = trajectory_keys(parse_config("", "a.toml", {"norm.name=un"}));  // has the keys of version 0.3
  EXPECT_EQ(keys.at("norm.mask"), "true");
  EXPECT_EQ(keys.at("norm.un.mask"), "\"valid\"");
  const ExperimentConfig cosine = parse_config("", "a.toml", {"train.schedule=cosine"}),
                         longer = parse_config("", "a.toml", {"train.schedule=cosine", "train.steps=70000"});
  EXPECT_EQ(trajectory_changes(cosine, longer), Settings{"train.steps was 60000 and is now 70000"});
  EXPECT_EQ(trajectory_changes(ExperimentConfig(), cosine),
            (Settings{"train.schedule was \"inverse_sqrt\" and is now \"cosine\"",
                      "train.steps was absent and is now 60000"}));
}

}  // namespace
}  // namespace foldgrad::testing
