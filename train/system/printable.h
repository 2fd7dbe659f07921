// Foreign text in messages and pages: from files, from the command line, from libraries. It may be long, and may
// contain control sequences for a terminal or HTML tags.
#pragma once
#include <string>
#include <string_view>

namespace foldgrad {

// Returns `text` in double quotes, cut after 80 characters by "...". Control characters, characters that change the
// direction of writing, and bytes that are not UTF-8 become escapes: "\x1b", "\n".
std::string in_quotes(std::string_view text);

// Returns a message for the terminal, with the same escapes except for line ends. Words and quoted values longer than
// 256 characters, then lines longer than 1,000, lose their middles: the beginning names a file, the end the reason.
std::string printable(std::string_view message);

// Returns `text` for HTML and SVG, with entities for &, < and >.
std::string in_markup(std::string_view text);

}  // namespace foldgrad
