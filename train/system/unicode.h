// Text as code points. Everything here follows Python's str: the programs whose results we must reproduce (sacreBLEU,
// subword-nmt) are written in Python.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace foldgrad {

struct CodePoint {
  std::size_t bytes = 0;  // 0 if the bytes are not well-formed UTF-8
  char32_t code = 0;
};
// Returns the code point at a byte of `text` (Unicode 15, table 3-7: no overlong forms, no surrogates, nothing above
// U+10FFFF).
CodePoint code_point_at(std::string_view text, std::size_t at);

// Returns the position of the first byte that is not part of a code point, or npos if there is none.
std::size_t first_bad_utf8(std::string_view text);

// Throws std::invalid_argument if `text` is not UTF-8.
std::u32string decode_utf8(std::string_view text);
std::string encode_utf8(std::u32string_view text);

bool is_space(char32_t c);  // behaves like Python's str.isspace()
// True if all characters are invisible: white space, controls, and default-ignorable characters such as U+200B and
// U+FEFF.
bool is_blank(std::string_view text);
// Returns the words between white space of any kind, as Python's str.split() does.
std::vector<std::string> split_words(std::string_view text);

// Converts to lower case as Python's str.lower() does. Maps each code point with glibc's table (Unicode 14), but U+0130
// becomes two code points, and a capital sigma at the end of a word becomes the small final sigma. Throws
// std::invalid_argument if `text` is not UTF-8.
std::string lower(std::string_view text);

}  // namespace foldgrad
