// Sentences as token ids, and the special ids of every vocabulary, which are fairseq's.
#pragma once
#include <cstdint>
#include <vector>

namespace foldgrad {

using Ids = std::vector<std::int64_t>;

constexpr std::int64_t kBos = 0, kPad = 1, kEos = 2, kUnk = 3;

}  // namespace foldgrad
