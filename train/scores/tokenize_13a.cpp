#include <string_view>

#include "train/scores/bleu.h"
#include "train/system/unicode.h"

// Works on bytes: all that is looked for is ASCII, and a byte of another character behaves as that character would.

namespace foldgrad {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_stop(char c) { return c == '.' || c == ','; }
bool is_symbol(char c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') ||
         (c >= ':' && c <= '@') || c == '/';
}

// Replaces as Python's re.sub of a pattern of two characters: matches don't overlap.
template <class Matches>
std::string around_pairs(const std::string& text, const Matches& matches, const char* before, const char* between,
                         const char* after) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i + 1 < text.size() && matches(text[i], text[i + 1])) {
      result.append(before).append(1, text[i]).append(between).append(1, text[i + 1]).append(after);
      ++i;
    } else {
      result += text[i];
    }
  }
  return result;
}

std::string around_symbols(const std::string& text) {
  std::string result;
  for (const char c : text) result += is_symbol(c) ? std::string{' ', c, ' '} : std::string(1, c);
  return result;
}

}  // namespace

std::string tokenize_13a(const std::string& line) {
  std::string text = line;
  constexpr std::string_view kReplaced[][2] = {{"<skipped>", ""}, {"-\n", ""},   {"\n", " "},  {"&quot;", "\""},
                                               {"&amp;", "&"},    {"&lt;", "<"}, {"&gt;", ">"}};
  for (const auto& [from, to] : kReplaced) replace_all(text, from, to);
  text = around_symbols(' ' + text + ' ');
  text = around_pairs(
      text, [](char a, char b) { return !is_digit(a) && is_stop(b); }, "", " ", " ");
  text = around_pairs(
      text, [](char a, char b) { return is_stop(a) && !is_digit(b); }, " ", " ", "");
  text = around_pairs(
      text, [](char a, char b) { return is_digit(a) && b == '-'; }, "", " ", " ");
  std::string result;
  for (const std::string& word : split_words(text)) result.append(result.empty() ? "" : " ").append(word);
  return result;
}

}  // namespace foldgrad
