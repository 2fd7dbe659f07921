// Text as code points. Everything here follows Python's str: the programs whose results we must reproduce (sacreBLEU,
// subword-nmt) are written in Python.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace foldgrad {

struct CodePoint {
  std::size_t bytes = 0;  // 0 if there is no well-formed UTF-8
  char32_t code = 0;
};
// Returns the code point at a byte of `text` (Unicode 15, table 3-7: no overlong forms, no surrogates, nothing above
// U+10FFFF).
CodePoint code_point_at(std::string_view text, std::size_t at);

// Returns the position of the first byte that is not part of a code point; npos if there is none.
std::size_t first_bad_utf8(std::string_view text);

// Throws std::invalid_argument if `text` is not UTF-8.
std::u32string decode_utf8(std::string_view text);
std::string encode_utf8(std::u32string_view text);

bool is_space(char32_t c);  // as str.isspace
// True if all characters are invisible: white space, controls, and those that Unicode ignores by default, such as
// U+200B and U+FEFF.
bool is_blank(std::string_view text);
// Splits as str.split(): words between white space of any kind.
std::vector<std::string> split_words(std::string_view text);

// Lowers as str.lower(): the mapping of each code point (glibc's, Unicode 14), U+0130 to two code points, and a capital
// sigma that ends a word to the small final sigma. Throws std::invalid_argument if `text` is not UTF-8.
std::string lower(std::string_view text);

}  // namespace foldgrad
