#include "train/data/permutation.h"

#include <numeric>
#include <utility>

namespace foldgrad {

std::vector<std::int64_t> counting(std::int64_t n) {
  std::vector<std::int64_t> indices(n);
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

// Fisher and Yates. Not std::shuffle, whose result differs between standard libraries.
std::vector<std::int64_t> permutation(std::int64_t n, Random random) {
  std::vector<std::int64_t> indices = counting(n);
  for (std::size_t i = indices.size(); i > 1; --i) {
    const PhiloxWords words = random.block(i);
    const std::uint64_t bits = std::uint64_t(words.word[0]) << 32 | words.word[1];
    std::swap(indices[i - 1], indices[bits % i]);
  }
  return indices;
}

}  // namespace foldgrad
