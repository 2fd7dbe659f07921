// toml++ makes a table for each part of a dotted key, and goes into them by recursion: what 100,000 parts would do to
// the stack must be found before it is asked.
#pragma once
#include <cstdint>
#include <string_view>

namespace foldgrad {

constexpr int kMostKeyParts = 16;  // configurations need 3: norm.un.window

// The first line, from 1, with a key or the name of a table of more parts; 0 when there is none.
std::int64_t line_of_deep_key(std::string_view toml);

}  // namespace foldgrad
