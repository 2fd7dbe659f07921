#include "train/system/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "train/system/unicode.h"

namespace foldgrad {
namespace {

bool is_hidden(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x200E || c == 0x200F || (c >= 0x2028 && c <= 0x202E) ||
         (c >= 0x2066 && c <= 0x2069);
}

std::string escaped(char32_t c) {
  if (c == '\n') return "\\n";
  if (c == '\t') return "\\t";
  if (c == '\r') return "\\r";
  return c < 0x100 ? fmt::format("\\x{:02x}", unsigned(c)) : fmt::format("\\u{:04x}", unsigned(c));
}

using Characters = std::vector<std::string>;

// Returns the printable form of each character, or of each byte that is not part of one. Stops after `most` of them.
Characters characters(std::string_view text, std::size_t most) {
  Characters all;
  for (std::size_t at = 0; at < text.size() && all.size() < most;) {
    const auto [bytes, code] = code_point_at(text, at);
    if (bytes == 0)
      all.push_back(fmt::format("\\x{:02x}", unsigned(static_cast<unsigned char>(text[at]))));
    else
      all.push_back(is_hidden(code) ? escaped(code) : std::string(text.substr(at, bytes)));
    at += std::max<std::size_t>(bytes, 1);
  }
  return all;
}

// Replaces everything between the first `begin` and the last `end` characters with `middle`.
void cut_out(Characters& all, std::size_t begin, std::size_t end, const std::string& middle) {
  all.erase(all.begin() + std::ptrdiff_t(begin), all.end() - std::ptrdiff_t(end));
  all.insert(all.begin() + std::ptrdiff_t(begin), middle);
}

std::string line_of(std::string_view text) {
  constexpr std::size_t kMostOfAValue = 256, kMost = 1000;
  Characters line, value;  // a value is a word, or quoted text that may contain spaces
  const auto take_value = [&] {
    if (value.size() > kMostOfAValue) cut_out(value, 160, 80, "...");
    line.insert(line.end(), value.begin(), value.end());
    value.clear();
  };
  bool quoted = false;
  for (const std::string& c : characters(text, text.size())) {
    if (c == "\"") quoted = !quoted;
    if (c == " " && !quoted) take_value();
    (c == " " && !quoted ? line : value).push_back(c);
  }
  take_value();
  if (line.size() > kMost) cut_out(line, 600, 400, fmt::format(" [... {} characters ...] ", line.size() - kMost));
  return fmt::format("{}", fmt::join(line, ""));
}

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMost = 80;
  std::vector<std::string> all = characters(text, kMost + 1);
  const bool cut = all.size() > kMost;
  if (cut) all.resize(kMost);
  return fmt::format("\"{}\"{}", fmt::join(all, ""), cut ? "..." : "");
}

std::string printable(std::string_view message) {
  std::istringstream lines{std::string(message)};
  std::string text;
  for (std::string line; std::getline(lines, line);) text += line_of(line) + (lines.eof() ? "" : "\n");
  return text;
}

std::string in_markup(std::string_view text) {
  std::string safe;
  for (const char c : text) safe += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return safe;
}

}  // namespace foldgrad
