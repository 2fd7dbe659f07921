#include "tests/harness/mutator.h"

#include <algorithm>
#include <cctype>
#include <cstring>

namespace foldgrad::testing {
namespace {

const std::vector<std::uint64_t> kIntegers{
    0,        1,       2, 7, 255, 256, 65535, 1u << 31, UINT32_MAX, INT64_MAX, UINT64_MAX, std::uint64_t(1) << 63,
    1u << 20, 1u << 27};
const std::vector<std::string> kNumbers{"0",     "-1",     "1",          "2",          "3",
                                        "1e400", "-1e400", "2147483648", "1000000007", "9223372036854775807",
                                        "1.5",   "-0.0",   "1e-320",     "nan",        "18446744073709551616",
                                        "inf",   "007",    "0x10",       "1e",         "9223372036854775808"};
const std::vector<std::string> kWords{
    // JSON
    "\"\"", "\"\\u0000\"", "\"\\ud800\"", "null", "true", "false", "{}", "[]", "[1,2]", "\"un\"",
    // not UTF-8, or invisible characters
    "\xff", "\xc3", "\xed\xa0\x80", "\u200b", "\ufeff", "\x1b[31m",
    // punctuation of JSON and TOML
    ",", ":", "}", "]", "{", "[", "=", "#", "\"", "'", " "};

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '+' || c == '_';
}

// Returns the range [begin, end) of the word at `at`, or of the single character there if it is not part of a word.
std::pair<std::size_t, std::size_t> word_at(const std::string& text, std::size_t at) {
  std::size_t begin = at, end = at + 1;
  if (!is_word(text[at])) return {begin, end};
  while (begin > 0 && is_word(text[begin - 1])) --begin;
  while (end < text.size() && is_word(text[end])) ++end;
  return {begin, end};
}

}  // namespace

void Mutator::change_bytes(std::string& text) {
  if (text.empty()) text = "x";
  const std::size_t at = below(text.size()), length = 1 + below(std::min<std::size_t>(text.size() - at, 16));
  switch (below(8)) {
    case 0:
      text[at] = char(text[at] ^ (1 << below(8)));
      break;
    case 1:
      text[at] = char(below(256));
      break;
    case 2: {
      const std::uint64_t value = one_of(kIntegers);
      std::memcpy(text.data() + at, &value, std::min(text.size() - at, sizeof value));
      break;
    }
    case 3:
      text.erase(at, length);
      break;
    case 4:
      text.insert(at, text.substr(at, length));
      break;
    case 5:
      text.insert(at, std::string(length, char(below(256))));
      break;
    case 6:
      text.resize(at);
      break;
    default:
      text += text.substr(at, length);
  }
}

void Mutator::change_words(std::string& text) {
  if (text.empty()) text = "x";
  const auto [begin, end] = word_at(text, below(text.size()));
  const std::string word = text.substr(begin, end - begin);
  switch (below(6)) {
    case 0:
    case 1:
      text.replace(begin, end - begin, one_of(kNumbers));
      break;
    case 2:
      text.replace(begin, end - begin, one_of(kWords));
      break;
    case 3: {  // another word of the text
      const auto [other, other_end] = word_at(text, below(text.size()));
      text.replace(begin, end - begin, text.substr(other, other_end - other));
      break;
    }
    case 4:
      text.insert(begin, one_of(kWords));
      break;
    default: {
      const std::size_t depth = below(20) == 0 ? 20'000 : 1 + below(80);
      const char* nest[] = {"[", "{\"a\":", "a.", "{a="};
      const std::string part = nest[below(4)];
      std::string deep;
      for (std::size_t i = 0; i < depth; ++i) deep += part;
      text.insert(begin, deep);
    }
  }
}

void Mutator::change_lines(std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size() - 1);
    lines.push_back(text.substr(begin, end + 1 - begin));
    begin = end + 1;
  }
  if (lines.empty()) return;
  const std::size_t at = below(lines.size()), other = below(lines.size());
  switch (below(4)) {
    case 0:
      lines.erase(lines.begin() + std::ptrdiff_t(at));
      break;
    case 1:
      lines.insert(lines.begin() + std::ptrdiff_t(other), std::string(lines[at]));
      break;
    case 2:
      std::swap(lines[at], lines[other]);
      break;
    default:  // one very long line
      for (int doubled = 0; doubled < 12 && lines[at].size() < 100'000; ++doubled) lines[at] += std::string(lines[at]);
  }
  text.clear();
  for (const std::string& line : lines) text += line;
}

std::string Mutator::bytes(std::string text) {
  for (std::size_t changes = some(); changes > 0; --changes) change_bytes(text);
  return text;
}

std::string Mutator::words(std::string text) {
  for (std::size_t changes = some(); changes > 0; --changes) {
    const std::size_t kind = below(8);
    kind == 0 ? change_bytes(text) : kind <= 2 ? change_lines(text) : change_words(text);
  }
  return text;
}

std::string Mutator::safetensors(const std::string& file) {
  constexpr std::size_t kLengthBytes = 8;
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  const std::size_t values = kLengthBytes + length, kind = below(3);
  if (kind == 0) return bytes(file);
  if (kind == 1 && values < file.size()) {
    std::string changed = file;
    for (std::size_t changes = some(); changes > 0; --changes)
      changed[values + below(file.size() - values)] ^= char(1 << below(8));
    return changed;
  }
  const std::string header = words(file.substr(kLengthBytes, length));
  const std::uint64_t new_length = header.size();
  std::string result(kLengthBytes, '\0');
  std::memcpy(result.data(), &new_length, kLengthBytes);
  return result + header + file.substr(values);
}

}  // namespace foldgrad::testing
