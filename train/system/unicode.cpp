#include "train/system/unicode.h"

#include <locale.h>
#include <wctype.h>

#include <algorithm>

#include "engine/check.h"
#include "engine/contains.h"

namespace foldgrad {
namespace {

// Returns a locale that comes with glibc; its character types do not depend on the user's settings.
locale_t unicode_locale() {
  static const locale_t locale = [] {
    const locale_t made = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
    if (!made) throw std::runtime_error("lower: the C library lacks the locale C.UTF-8");
    return made;
  }();
  return locale;
}

bool is_cased(char32_t c) {
  return towlower_l(wint_t(c), unicode_locale()) != c || towupper_l(wint_t(c), unicode_locale()) != c;
}

// Returns true for the case-ignorable code points of Unicode that occur in Greek words or next to them.
bool is_case_ignorable(char32_t c) {
  constexpr std::u32string_view kMarks = U"'.:^`\u00A8\u00AD\u00AF\u00B4\u00B7\u00B8\u0384\u0385\u0387\u2018\u2019";
  return (c >= 0x300 && c < 0x370) || kMarks.find(c) != kMarks.npos;
}

bool is_final_sigma(std::u32string_view text, std::size_t at) {
  std::size_t before = at, after = at + 1;
  while (before > 0 && is_case_ignorable(text[before - 1])) --before;
  while (after < text.size() && is_case_ignorable(text[after])) ++after;
  return before > 0 && is_cased(text[before - 1]) && !(after < text.size() && is_cased(text[after]));
}

}  // namespace

CodePoint code_point_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return {1, char32_t(first)};
  const std::size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || at + bytes > text.size()) return {};
  char32_t code = first & (0x7Fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3F);
  }
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[bytes] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return {};
  return {bytes, code};
}

std::size_t first_bad_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = code_point_at(text, at).bytes;
    if (bytes == 0) return at;
    at += bytes;
  }
  return std::string_view::npos;
}

std::u32string decode_utf8(std::string_view text) {
  std::u32string result;
  result.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint one = code_point_at(text, at);
    FOLDGRAD_CHECK(one.bytes > 0, "decode_utf8: the text must be UTF-8, got byte {:#04x} at offset {}",
                   unsigned(static_cast<unsigned char>(text[at])), at);
    result.push_back(one.code);
    at += one.bytes;
  }
  return result;
}

std::string encode_utf8(std::u32string_view text) {
  std::string result;
  result.reserve(text.size());
  for (const char32_t c : text) {
    if (c < 0x80) {
      result += char(c);
      continue;
    }
    const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    result += char(unsigned(0xFF00u >> (more + 1) & 0xFF) | unsigned(c >> 6 * more));
    for (int i = more - 1; i >= 0; --i) result += char(0x80 | (c >> 6 * i & 0x3F));
  }
  return result;
}

bool is_space(char32_t c) {
  constexpr char32_t kOthers[] = {0x20, 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000};
  return (c >= 0x9 && c <= 0xD) || (c >= 0x1C && c <= 0x1F) || (c >= 0x2000 && c <= 0x200A) || contains(kOthers, c);
}

bool is_blank(std::string_view text) {
  // The first and last code point of each range of controls and of Unicode's Default_Ignorable_Code_Point
  // (DerivedCoreProperties.txt).
  constexpr char32_t kInvisible[][2] = {{0, 0x1F},          {0x7F, 0x9F},       {0xAD, 0xAD},      {0x34F, 0x34F},
                                        {0x61C, 0x61C},     {0x115F, 0x1160},   {0x17B4, 0x17B5},  {0x180B, 0x180F},
                                        {0x200B, 0x200F},   {0x202A, 0x202E},   {0x2060, 0x206F},  {0x3164, 0x3164},
                                        {0xFE00, 0xFE0F},   {0xFEFF, 0xFEFF},   {0xFFA0, 0xFFA0},  {0xFFF0, 0xFFF8},
                                        {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF}};
  return std::ranges::all_of(decode_utf8(text), [&](char32_t c) {
    return is_space(c) ||
           std::ranges::any_of(kInvisible, [c](const auto& range) { return range[0] <= c && c <= range[1]; });
  });
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint one = code_point_at(text, at);
    FOLDGRAD_CHECK(one.bytes > 0, "split_words: the text must be UTF-8, got byte {:#04x} at offset {}",
                   unsigned(static_cast<unsigned char>(text[at])), at);
    const bool space = is_space(one.code);
    if (!space && !inside) words.emplace_back();
    if (!space) words.back().append(text.substr(at, one.bytes));
    inside = !space;
    at += one.bytes;
  }
  return words;
}

std::string lower(std::string_view line) {
  const std::u32string text = decode_utf8(line);
  std::u32string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == 0x130)
      result += U"i\u0307";
    else if (text[i] == 0x3A3 && is_final_sigma(text, i))
      result += char32_t(0x3C2);
    else
      result += char32_t(towlower_l(wint_t(text[i]), unicode_locale()));
  }
  return encode_utf8(result);
}

}  // namespace foldgrad
