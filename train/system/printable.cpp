#include "train/system/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
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

// Returns each character, or byte that is not part of one, as it is shown. Stops after `most` of them.
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

// Appends `all`, in which `middle` takes the place of what is between the first `begin` and the last `end` characters.
void append_ends(std::vector<std::string>& to, std::span<const std::string> all, std::size_t begin, std::size_t end,
                 const std::string& middle) {
  to.insert(to.end(), all.begin(), all.begin() + std::ptrdiff_t(begin));
  to.push_back(middle);
  to.insert(to.end(), all.end() - std::ptrdiff_t(end), all.end());
}

// A word, or text in quotes with its spaces, is one value.
std::vector<std::string> with_short_values(const std::vector<std::string>& all) {
  constexpr std::size_t kMost = 256, kBegin = 160, kEnd = 80;
  std::vector<std::string> shortened;
  bool quoted = false;
  for (std::size_t begin = 0, i = 0; i <= all.size(); ++i) {
    if (i < all.size() && all[i] == "\"") quoted = !quoted;
    if (i < all.size() && (quoted || all[i] != " ")) continue;
    const std::span value(all.begin() + std::ptrdiff_t(begin), i - begin);
    if (value.size() > kMost)
      append_ends(shortened, value, kBegin, kEnd, "...");
    else
      shortened.insert(shortened.end(), value.begin(), value.end());
    if (i < all.size()) shortened.push_back(all[i]);
    begin = i + 1;
  }
  return shortened;
}

std::string line_of(std::string_view text) {
  constexpr std::size_t kBegin = 600, kEnd = 400;
  std::vector<std::string> all = with_short_values(characters(text, text.size()));
  if (all.size() > kBegin + kEnd) {
    std::vector<std::string> ends;
    append_ends(ends, all, kBegin, kEnd, fmt::format(" [... {} characters ...] ", all.size() - kBegin - kEnd));
    all = std::move(ends);
  }
  return fmt::format("{}", fmt::join(all, ""));
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
