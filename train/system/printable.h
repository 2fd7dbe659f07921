// Makes untrusted text fit for messages and pages. Text from files, the command line or libraries may be long, and may
// contain control sequences for a terminal or HTML tags.
#pragma once
#include <string>
#include <string_view>

namespace foldgrad {

// Returns `text` in double quotes. After 80 characters it is cut, and "..." follows. Control characters, characters
// that change the writing direction, and bytes that are not UTF-8 become escapes: "\x1b", "\n".
std::string in_quotes(std::string_view text);

// Returns a message for the terminal, with the same escapes except for newlines. Cuts out the middle of words and
// quoted values longer than 256 characters, and then of lines longer than 1,000: the beginning names a file, the end
// gives the reason.
std::string printable(std::string_view message);

// Returns `text` for HTML and SVG, with entities for &, < and >.
std::string in_markup(std::string_view text);

}  // namespace foldgrad
