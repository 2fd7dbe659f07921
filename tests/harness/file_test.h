// A fixture that gives each test its own directory, and checks of texts.
#pragma once
#include <sstream>
#include <vector>

#include "tests/engine/error_message.h"
#include "tests/engine/files/temporary_directory.h"

namespace foldgrad::testing {

// These checks show the whole text if they fail.
inline ::testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "'" << part << "' is not in '" << text << "'";
}
inline ::testing::AssertionResult begins(const std::string& text, const std::string& start) {
  if (text.starts_with(start)) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "'" << text << "' does not begin with '" << start << "'";
}

// Splits a text into its lines or, with another `end`, into the parts that end with this character.
inline std::vector<std::string> lines_of(const std::string& text, char end = '\n') {
  std::vector<std::string> lines;
  std::istringstream all(text);
  for (std::string line; std::getline(all, line, end);) lines.push_back(line);
  return lines;
}

class FileTest : public ::testing::Test {
 protected:
  // Writes a file and creates its parent directories.
  void write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories(std::filesystem::path(files_ / name).parent_path());
    write_bytes(files_ / name, content);
  }
  std::string bytes(const std::string& name) const { return read_bytes(files_ / name); }
  bool exists(const std::string& name) const { return std::filesystem::exists(files_ / name); }
  // Runs a call that must throw Error. Returns the error's message, with "@" in place of the test's directory and the
  // slash after it.
  template <class Error, class Call>
  std::string error_of(const Call& call) const {
    std::string text = message<Error>(call);
    const std::string directory = files_.path() + "/";
    for (std::size_t at; (at = text.find(directory)) != std::string::npos;) text.replace(at, directory.size(), "@");
    return text;
  }

  TemporaryDirectory files_;
};

}  // namespace foldgrad::testing
