#include "train/system/printable.h"

#include <fmt/format.h>

#include <algorithm>
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

// One entry for each character, or byte that is none, as it is shown. `most` of them are enough.
std::vector<std::string> characters(std::string_view text, std::size_t most) {
  std::vector<std::string> all;
  while (!text.empty() && all.size() < most) {
    const std::string_view enough = text.substr(0, 4 * most);
    const std::size_t good = std::min(first_bad_utf8(enough), enough.size());
    for (const char32_t c : decode_utf8(text.substr(0, good)))
      all.push_back(is_hidden(c) ? escaped(c) : encode_utf8({&c, 1}));
    text.remove_prefix(good);
    if (text.empty()) break;
    all.push_back(fmt::format("\\x{:02x}", unsigned(static_cast<unsigned char>(text[0]))));
    text.remove_prefix(1);
  }
  return all;
}

std::string line_of(std::string_view text) {
  constexpr std::size_t kBegin = 600, kEnd = 400;
  const std::vector<std::string> all = characters(text, text.size());
  if (all.size() <= kBegin + kEnd) return fmt::format("{}", fmt::join(all, ""));
  return fmt::format("{} [... {} characters ...] {}", fmt::join(all.begin(), all.begin() + kBegin, ""),
                     all.size() - kBegin - kEnd, fmt::join(all.end() - kEnd, all.end(), ""));
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
  std::string text;
  for (std::size_t begin = 0;;) {
    const std::size_t end = std::min(message.find('\n', begin), message.size());
    text += line_of(message.substr(begin, end - begin));
    if (end == message.size()) return text;
    text += '\n';
    begin = end + 1;
  }
}

}  // namespace foldgrad
