// Configurations that begin with another one, and keys that are too deep.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/engine/error_message.h"
#include "tests/engine/files/temporary_directory.h"
#include "train/config/config.h"

namespace foldgrad::testing {
namespace {

struct ConfigFiles : ::testing::Test {
  void write(const std::string& name, const std::string& text) { write_bytes(directory_ / name, text); }
  ExperimentConfig read(const std::string& name) { return read_config(directory_ / name); }
  // Of a configuration that is refused, the directory left out.
  std::string refusal(const std::string& name) {
    std::string text = message<ConfigError>([&] { read(name); });
    for (std::size_t at; (at = text.find(directory_.path())) != std::string::npos;)
      text.erase(at, directory_.path().size() + 1);
    return text;
  }
  const TemporaryDirectory directory_;
};

TEST_F(ConfigFiles, GiveWhatDiffersFromTheirBase) {
  std::filesystem::create_directory(directory_ / "more");
  write("base.toml", "[train]\nlr = 1\nseed = 7\n[norm.un]\nwindow = 2\nwarmup = 3\n");
  write("middle.toml", "base = \"base.toml\"\nnorm.name = 'un'\nnorm.un.window = 6\ntrain.lr = 2\n");
  write("more/last.toml", "base = '../middle.toml'\n[train]\nlr = 3\n[data]\ntest = 'base'\n");
  const ExperimentConfig c = read("more/last.toml");
  EXPECT_EQ(c.train.lr, 3);
  EXPECT_EQ(c.train.seed, 7);
  EXPECT_EQ(c.data.test, "base");
  EXPECT_EQ(c.model.normalizer_options, (std::map<std::string, std::string>{{"window", "6"}, {"warmup", "3"}}));
  EXPECT_EQ(read("middle.toml").train.lr, 2);
  EXPECT_EQ(parse_config(config_text(c), "whole.toml"), c);
  EXPECT_EQ(read_config(directory_ / "more/last.toml", {"train.lr=4"}).train.lr, 4);
}

TEST_F(ConfigFiles, NameTheFileInWhichAValueStands) {
  write("base.toml", "[train]\n\nlr = 0\nsteps = 3\n");
  write("same.toml", "base = 'base.toml'\n");
  write("own.toml", "base = 'base.toml'\ntrain.lr = -1\n");
  write("epochs.toml", "base = 'base.toml'\ntrain.lr = 1\ntrain.epochs = 2\n");
  EXPECT_EQ(refusal("same.toml"), "base.toml:3: train.lr must be a number above 0, got 0");
  EXPECT_EQ(refusal("own.toml"), "own.toml:2: train.lr must be a number above 0, got -1");
  EXPECT_EQ(refusal("epochs.toml"),
            "base.toml:4: train.steps cannot be given beside train.epochs = 2, which decides; train.epochs = 0 makes "
            "it a key again");
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
  EXPECT_EQ(refusal("circle.toml"), "next.toml:1: base leads in a circle: circle.toml -> next.toml -> ./circle.toml");
  EXPECT_EQ(refusal("itself.toml"), "itself.toml:1: base leads in a circle: itself.toml -> itself.toml");
  EXPECT_EQ(refusal("absent.toml"), "absent.toml:2: base: x.toml: cannot be opened: No such file or directory");
  EXPECT_EQ(refusal("number.toml"), "number.toml:1: base must be the path of a configuration, got 1");
  EXPECT_EQ(refusal("empty.toml"), "empty.toml:1: base must be the path of a configuration, got \"\"");
  EXPECT_EQ(refusal("broken.toml").substr(0, 11), "no.toml:2: ");
  write("typo.toml", "bse = 'no.toml'\n");
  EXPECT_EQ(refusal("typo.toml"), "typo.toml:1: there is no key bse; did you mean base?");
}

TEST(TomlDepth, AKeyOfAHundredThousandPartsIsAnErrorNotACrash) {
  const auto refusal = [](const std::string& text, const std::vector<std::string>& settings = {}) {
    return message<ConfigError>([&] { parse_config(text, "a.toml", settings); });
  };
  std::string key = "a";
  for (int i = 0; i < 100'000; ++i) key += ".a";
  for (const std::string& text : {key + " = 1\n", "[" + key + "]\n", "x = {" + key + " = 1}\n"})
    EXPECT_EQ(refusal("\n" + text), "a.toml:2: a line must have at most 100 dots");
  EXPECT_EQ(refusal("", {"train.lr={" + key + "=1}"}).substr(0, 52),
            "--set train.lr: train.lr must be a number above 0, g");
  EXPECT_NO_THROW(parse_config("# " + std::string(100, '.') + "\n#.\n", "a.toml"));
  EXPECT_EQ(refusal("# " + std::string(101, '.')), "a.toml:1: a line must have at most 100 dots");
  const std::string path = "../../../../../../../../../../../a";
  EXPECT_EQ(parse_config("", "a.toml", {"data.directory=" + path}).data.directory, path);
}

}  // namespace
}  // namespace foldgrad::testing
