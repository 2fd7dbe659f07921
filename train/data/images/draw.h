// Random choices among whole numbers.
#pragma once
#include <cstdint>

namespace foldgrad {

// In [0, n), from 32 random bits; each as likely, within n / 2^32.
inline std::int64_t draw_below(std::uint32_t bits, std::int64_t n) {
  return std::int64_t(std::uint64_t(bits) * std::uint64_t(n) >> 32);
}

}  // namespace foldgrad
