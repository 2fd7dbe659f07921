// Philox4x32-10, the counter-based random number generator of Salmon, Moraes, Dror and Shaw: "Parallel Random Numbers:
// As Easy as 1, 2, 3" (SC 2011). A number depends only on its key and its counter. So all devices, thread counts and
// orders of computation give the same numbers, and a backward pass can recompute a mask instead of storing it.
#pragma once
#include <cstdint>

#include "engine/dtype.h"

namespace foldgrad {

struct PhiloxWords {
  std::uint32_t word[4];
};

// Computes one block: ten rounds over a 128-bit counter with a 64-bit key.
FOLDGRAD_HD inline PhiloxWords philox4x32_10(PhiloxWords counter, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t(0xD2511F53u) * counter.word[0];
    const std::uint64_t product1 = std::uint64_t(0xCD9E8D57u) * counter.word[2];
    counter = {{std::uint32_t(product1 >> 32) ^ counter.word[1] ^ key0, std::uint32_t(product1),
                std::uint32_t(product0 >> 32) ^ counter.word[3] ^ key1, std::uint32_t(product0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// A sequence of random numbers. `seed` identifies the run, `stream` a place in the model, and `step` the training step.
struct Random {
  std::uint64_t seed = 0;
  std::uint32_t stream = 0, step = 0;
  std::uint64_t first_block = 0;  // the first block to use; the blocks before it belong to earlier parts of the batch
  // Returns elements 4 * number ... 4 * number + 3 of the sequence.
  FOLDGRAD_HD PhiloxWords block(std::uint64_t number) const {
    const std::uint64_t block = first_block + number;
    return philox4x32_10({{std::uint32_t(block), std::uint32_t(block >> 32), stream, step}}, std::uint32_t(seed),
                         std::uint32_t(seed >> 32));
  }
  FOLDGRAD_HD std::uint32_t bits(std::uint64_t element) const { return block(element / 4).word[element % 4]; }
  // Returns a number in [0, 2^16). A block has eight of these numbers, so each costs half as much as bits().
  FOLDGRAD_HD std::uint32_t bits16(std::uint64_t element) const { return half(block(element / 8), int(element % 8)); }
  // Selects the word by conditions: a GPU keeps an array in memory, not in registers, if it is indexed at run time.
  FOLDGRAD_HD static std::uint32_t half(const PhiloxWords& words, int k) {
    const std::uint32_t lower = k / 2 % 2 ? words.word[1] : words.word[0];
    const std::uint32_t upper = k / 2 % 2 ? words.word[3] : words.word[2];
    return (k / 4 ? upper : lower) >> (k % 2 * 16) & 0xFFFFu;
  }
};

}  // namespace foldgrad
