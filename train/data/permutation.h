// Orders of examples, and random choices among whole numbers.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/philox.h"

namespace foldgrad {

// Returns 0, 1, ..., n - 1.
std::vector<std::int64_t> counting(std::int64_t n);

// Returns them in the order that `random` gives: each order is as likely.
std::vector<std::int64_t> permutation(std::int64_t n, Random random);

// Returns a number in [0, n) from 32 random bits; each is as likely, within n / 2^32.
inline std::int64_t draw_below(std::uint32_t bits, std::int64_t n) {
  return std::int64_t(std::uint64_t(bits) * std::uint64_t(n) >> 32);
}

}  // namespace foldgrad
