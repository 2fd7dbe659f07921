#include "train/config/toml_depth.h"

#include <gtest/gtest.h>

#include "tests/engine/error_message.h"
#include "train/config/config.h"

namespace foldgrad::testing {
namespace {

std::string parts(int n) {
  std::string key = "a";
  for (int i = 1; i < n; ++i) key += i % 3 == 0 ? " . 'b'" : i % 3 == 1 ? ".\"c.#\"" : ".d";
  return key;
}

TEST(TomlDepth, FindsDeepKeysWhereverTheyStand) {
  const std::string deep = parts(kMostKeyParts + 1), fine = parts(kMostKeyParts);
  const std::string text = "# " + deep + "\nx = \"" + deep.substr(0, 1) + "\\\".......................\"\n";
  EXPECT_EQ(line_of_deep_key(text), 0);
  EXPECT_EQ(line_of_deep_key("x = '''\n................\n.................'''\n" + fine + " = 1\n[" + fine + "]\n"), 0);
  EXPECT_EQ(
      line_of_deep_key("x = [1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5]"), 0);
  for (const std::string& line : {deep + " = 1", "[" + deep + "]", "[[" + deep + "]]", "x = {" + deep + " = 1}",
                                  "x = {a = 1, " + deep + " = 1}", "x = [{" + deep + " = 1}]"})
    EXPECT_EQ(line_of_deep_key(text + line + "\n"), 3) << line;
  EXPECT_EQ(line_of_deep_key("x = \"\"\"\n\n\"\"\"\n" + deep), 4);
  for (const char* open : {"x = \"", "x = '", "x = \"\"\"", "#", "\"", "x = \"\\"})
    EXPECT_EQ(line_of_deep_key(open), 0);
}

TEST(TomlDepth, AHundredThousandPartsAreAnErrorNotACrash) {
  std::string key = "a";
  for (int i = 0; i < 100'000; ++i) key += ".a";
  for (const std::string& text : {key + " = 1\n", "[" + key + "]\n"})
    EXPECT_EQ(message<ConfigError>([&] { parse_config("\n" + text, "c.toml"); }),
              "c.toml:2: a key must have at most 16 parts");
  EXPECT_EQ(message<ConfigError>([&] { parse_config("", "c.toml", {"train.lr={" + key + "=1}"}); }).substr(0, 52),
            "--set train.lr: train.lr must be a number above 0, g");
  EXPECT_EQ(parse_config("", "c.toml", {"data.directory=../../../../../../../../../../../a"}).data.directory,
            "../../../../../../../../../../../a");
}

}  // namespace
}  // namespace foldgrad::testing
