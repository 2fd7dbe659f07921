// Random orders of examples, and random integers.
#pragma once
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/philox.h"

namespace foldgrad {

// Returns 0, 1, ..., n - 1.
inline std::vector<std::int64_t> counting(std::int64_t n) {
  std::vector<std::int64_t> indices(n);
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

// Returns a Fisher-Yates shuffle of 0, ..., n - 1 drawn from `random`, so all orders are equally likely. std::shuffle
// would differ between standard libraries.
inline std::vector<std::int64_t> permutation(std::int64_t n, Random random) {
  std::vector<std::int64_t> indices = counting(n);
  for (std::size_t i = indices.size(); i > 1; --i) {
    const PhiloxWords words = random.block(i);
    const std::uint64_t bits = std::uint64_t(words.word[0]) << 32 | words.word[1];
    std::swap(indices[i - 1], indices[bits % i]);
  }
  return indices;
}

// Returns a number in [0, n) from 32 random bits. All n are equally likely, up to a relative difference of n / 2^32.
inline std::int64_t draw_below(std::uint32_t bits, std::int64_t n) {
  return std::int64_t(std::uint64_t(bits) * std::uint64_t(n) >> 32);
}

}  // namespace foldgrad
