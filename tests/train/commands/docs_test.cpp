// What documents count or list, against what there is.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "models/normalizers/normalizer.h"
#include "tests/train/program.h"

namespace foldgrad::testing {
namespace {

std::string document(const std::string& name) { return read_bytes(FOLDGRAD_SOURCE_DIR "/" + name); }

TEST(Docs, TheReadmeCountsTheNormalizers) {
  EXPECT_NE(
      document("README.md").find(fmt::format("`models/normalizers/normalizer.h` has {} of them", normalizers().size())),
      std::string::npos);
}

TEST(Docs, TheReadmesProgramIsAnExample) {
  const std::string readme = document("README.md"), program = document("examples/mlp/mlp.cpp");
  const std::size_t begin = readme.find("```cpp\n") + 7;
  std::istringstream code(readme.substr(begin, readme.find("```", begin) - begin));
  std::size_t place = 0, lines = 0;
  for (std::string line; std::getline(code, line);) {
    if (line.empty()) continue;
    place = program.find(line + "\n", place);
    ASSERT_NE(place, std::string::npos) << line;
    ++lines;
  }
  EXPECT_GE(lines, 8u);
}

// The commands of a table's first cells: "| `fold`, `verify` | ...".
std::set<std::string> documented_commands() {
  std::set<std::string> commands;
  std::istringstream page(document("docs/commands.md"));
  bool table = false;
  for (std::string line; std::getline(page, line);) {
    table = line.rfind("| command ", 0) == 0 || (table && line.rfind("|", 0) == 0);
    if (!table) continue;
    std::istringstream cell(line.substr(1, line.find('|', 1) - 1));
    for (std::string part; std::getline(cell, part, '`') && std::getline(cell, part, '`');)
      commands.insert(part.substr(0, part.find(' ')));
  }
  return commands;
}

// The commands that --help lists, a word and its description a line.
std::set<std::string> commands_of_the_program() {
  std::set<std::string> commands;
  const std::string help = run_program("--help").out;
  std::istringstream lines(help.substr(help.find("Subcommands:\n") + 13));
  for (std::string line; std::getline(lines, line);)
    if (line.size() > 2 && line.rfind("  ", 0) == 0 && line[2] != ' ')
      commands.insert(line.substr(2, line.find_first_of(", ", 2) - 2));  // "fold, fuse"
  return commands;
}

TEST(Docs, CommandsAreAllInTheTable) {
  EXPECT_GE(commands_of_the_program().size(), 20u);
  EXPECT_EQ(documented_commands(), commands_of_the_program());
}

}  // namespace
}  // namespace foldgrad::testing
