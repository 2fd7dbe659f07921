#include "train/config/toml_depth.h"

#include <algorithm>

namespace foldgrad {
namespace {

// Behind the text in quotes that begins at `at`; a text without end ends with the file or, of one line, with that.
std::size_t end_of_text(std::string_view toml, std::size_t at) {
  const char quote = toml[at];
  const bool escapes = quote == '"', lines = toml.substr(at, 3) == std::string_view(escapes ? "\"\"\"" : "'''");
  const std::string_view end = toml.substr(at, lines ? 3 : 1);
  for (at += end.size(); at < toml.size(); ++at) {
    if (toml.substr(at, end.size()) == end) return at + end.size();
    if (!lines && toml[at] == '\n') return at;
    at += escapes && toml[at] == '\\';
  }
  return toml.size();
}

}  // namespace

std::int64_t line_of_deep_key(std::string_view toml) {
  std::int64_t line = 1;
  int dots = 0;  // since a key may have begun
  for (std::size_t at = 0; at < toml.size(); ++at) {
    const char c = toml[at];
    if (c == '"' || c == '\'') {
      const std::size_t end = end_of_text(toml, at);
      line += std::count(toml.begin() + std::ptrdiff_t(at), toml.begin() + std::ptrdiff_t(end), '\n');
      at = end - 1;
    } else if (c == '#') {
      at = std::min(toml.find('\n', at), toml.size()) - 1;
    } else if (c == '\n' || std::string_view("=,{}[]").find(c) != std::string_view::npos) {
      line += c == '\n';
      dots = 0;
    } else if (c == '.' && ++dots >= kMostKeyParts) {
      return line;
    }
  }
  return 0;
}

}  // namespace foldgrad
