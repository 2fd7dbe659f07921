// Foreign text in messages: from files, from the command line, from libraries. It may be long, and may contain control
// sequences for a terminal.
#pragma once
#include <string>
#include <string_view>

namespace foldgrad {

// In double quotes, at most 80 characters of it, then "...". Control characters, what changes the direction of writing,
// and bytes that are not UTF-8 become escapes: "\x1b", "\n".
std::string in_quotes(std::string_view text);

// A message as it goes to the terminal. The same escapes, but lines stay lines; what is longer than 1,000 characters
// loses its middle, since its beginning names the file and its end the reason.
std::string printable(std::string_view message);

}  // namespace foldgrad
