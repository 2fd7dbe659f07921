// docs/training.md lists every key of a configuration as `foldgrad config` explains it, and no other.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "tests/train/program.h"
#include "train/config/keys.h"

namespace foldgrad::testing {
namespace {

// Rows that begin with a key: "| `train.lr` | ...".
std::set<std::string> documented_rows() {
  std::set<std::string> rows;
  std::istringstream page(read_bytes(FOLDGRAD_SOURCE_DIR "/docs/training.md"));
  for (std::string line; std::getline(page, line);)
    if (line.rfind("| `", 0) == 0 && line.find("` |") != std::string::npos) rows.insert(line);
  return rows;
}

// By key, as TOML has it.
std::map<std::string, std::string> texts_of(const ExperimentConfig& defaults) {
  std::map<std::string, std::string> texts;
  std::istringstream config(config_text(defaults));
  std::string section;
  for (std::string line; std::getline(config, line);) {
    const std::size_t equal = line.find(" = ");
    if (!line.empty() && line[0] == '[') section = line.substr(1, line.size() - 2);
    if (equal != std::string::npos) texts[section + "." + line.substr(0, equal)] = line.substr(equal + 3);
  }
  return texts;
}

TEST(TrainingDocs, HaveEveryKeyOfTheConfiguration) {
  std::set<std::string> rows;
  for (const char* family : kFamiliesWithKeys) {
    ExperimentConfig defaults;
    defaults.family = family;
    const std::map<std::string, std::string> texts = texts_of(defaults);
    visit_config(defaults, [&](const auto&, const ConfigKey& key) {
      if (key.full_name() == "model.family" && defaults.family != ExperimentConfig().family) return;
      const std::string name = key.full_name();
      const bool decides =
          key.trajectory || name == "train.steps" || name == "train.epochs";  // with the cosine schedule
      rows.insert(fmt::format("| `{}` | {}{} | {} | {}{} |", key.full_name(), key.values(),
                              key.unit.empty() ? "" : ", " + key.unit, texts.at(key.full_name()), key.help,
                              decides ? " *" : ""));
    });
  }
  const std::set<std::string> documented = documented_rows();
  for (const std::string& row : rows) EXPECT_TRUE(documented.count(row)) << "missing: " << row;
  for (const std::string& row : documented) EXPECT_TRUE(rows.count(row)) << "not so: " << row;
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
