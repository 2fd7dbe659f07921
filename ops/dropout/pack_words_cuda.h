// Random words for packs of elements. For .cu files.
#pragma once
#include "engine/cuda/launch.h"
#include "engine/philox.h"

namespace foldgrad {

// The random words of one pack: a block of Philox has eight halves of words, and a pack lies within a block.
struct PackWords {
  PhiloxWords words;
  int first;  // half

  // Returns the words of the pack that begins with element i.
  __device__ static PackWords of(const Random& random, std::int64_t i) {
    return {random.block(std::uint64_t(i) / 8), int(i % 8)};
  }
  __device__ std::uint32_t bits(std::int64_t k) const { return Random::half(words, first + int(k)); }
};

}  // namespace foldgrad
