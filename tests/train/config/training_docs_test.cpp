// docs/training.md lists every key of a configuration, and no other.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "tests/train/program.h"
#include "train/config/keys.h"

namespace foldgrad::testing {
namespace {

// The first cells of table rows that look like keys: "| `train.lr` | ...".
std::set<std::string> documented_keys() {
  std::set<std::string> keys;
  std::istringstream page(read_bytes(FOLDGRAD_SOURCE_DIR "/docs/training.md"));
  for (std::string line; std::getline(page, line);) {
    const std::size_t end = line.find("` |");
    if (line.rfind("| `", 0) == 0 && end != std::string::npos) keys.insert(line.substr(3, end - 3));
  }
  return keys;
}

TEST(TrainingDocs, HaveEveryKeyOfTheConfiguration) {
  std::set<std::string> keys;
  const ExperimentConfig defaults;
  visit_config(defaults, [&](const auto&, const ConfigKey& key) { keys.insert(key.full_name()); });
  const std::set<std::string> documented = documented_keys();
  for (const std::string& key : keys) EXPECT_TRUE(documented.count(key)) << key << " has no row";
  for (const std::string& key : documented) EXPECT_TRUE(keys.count(key)) << key << " does not exist";
}

TEST(ConfigCommand, ListsKeysAndFillsInDefaults) {
  const ProgramResult all = run_program("config"), one = run_program("config --set train.lr=0.25"),
                      wrong = run_program("config --set train.lrr=0.25");
  EXPECT_EQ(all.out, config_help());
  ExperimentConfig config;
  config.train.lr = 0.25;
  EXPECT_EQ(one.out, config_text(config));
  EXPECT_EQ(wrong.exit_code, 2);
}

}  // namespace
}  // namespace foldgrad::testing
