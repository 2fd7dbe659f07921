#include <cmath>
#include <vector>

#include "engine/cpu/philox_block.h"
#include "tests/harness/properties.h"

namespace foldgrad {
namespace {

std::vector<std::uint32_t> words(const PhiloxWords& w) { return {w.word, w.word + 4}; }

// The known answers are from the authors' library Random123 (kat_vectors, philox4x32 with 10 rounds).
TEST(Philox, PublishedVectors) {
  using Words = std::vector<std::uint32_t>;
  EXPECT_EQ(words(philox4x32_10({{0, 0, 0, 0}}, 0, 0)), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const std::uint32_t ones = 0xffffffff;
  EXPECT_EQ(words(philox4x32_10({{ones, ones, ones, ones}}, ones, ones)),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(words(philox4x32_10({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0)),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, SeedStreamStepAndElementArePlacedInKeyAndCounter) {
  const Random random{0x0123456789abcdef, 0x11111111, 0x22222222};
  EXPECT_EQ(words(random.block(0x0000000500000006)),
            words(philox4x32_10({{6, 5, 0x11111111, 0x22222222}}, 0x89abcdef, 0x01234567)));
  for (int k = 0; k < 4; ++k) EXPECT_EQ(random.bits(4 * 77 + k), random.block(77).word[k]);
  for (int k = 0; k < 8; ++k)
    EXPECT_EQ(random.bits16(8 * 77 + k), (random.block(77).word[k / 2] >> (k % 2 * 16)) % 65536);
}

RC_GTEST_PROP(Philox, ManyAtOnceAreTheSameBits, ()) {
  // Some cases begin just below element 2^35, where the block number, element / 8, no longer fits into 32 bits.
  const auto base = *rc::gen::element<std::uint64_t>(0, (1ull << 35) - 128, 1ull << 40);
  const std::uint64_t first = base + 8 * *rc::gen::inRange<std::uint64_t>(0, 100);
  const Random random{*rc::gen::arbitrary<std::uint64_t>(), *rc::gen::arbitrary<std::uint32_t>(),
                      *rc::gen::arbitrary<std::uint32_t>()};
  std::uint32_t bits[kPhiloxElements];
  philox_bits16(random, first, bits);
  for (int i = 0; i < kPhiloxElements; ++i) RC_ASSERT(bits[i] == random.bits16(first + std::uint64_t(i)));
}

// Returns a number in [0, 1).
double uniform(const Random& random, std::uint64_t element) { return random.bits(element) / 4294967296.; }

// Each of the 100 cells should get 10,000 numbers. Then chi squared has mean 99 and standard deviation 14, and is
// practically never 7 standard deviations off by chance.
TEST(Philox, FillsCellsEvenly) {
  const Random random{42, 7, 3};
  std::vector<int> cells(100);
  for (std::uint64_t i = 0; i < 1000000; ++i) ++cells[std::size_t(uniform(random, i) * 100)];
  double chi2 = 0;
  for (int count : cells) chi2 += (count - 1e4) * (count - 1e4) / 1e4;
  EXPECT_LT(chi2, 200);
  EXPECT_GT(chi2, 30);  // numbers that are more even than random ones are also wrong
}

TEST(Philox, NeighbouringSequencesAreNotCorrelated) {
  const int n = 100000;
  const Random base{42, 7, 3};
  for (const Random& other : {Random{43, 7, 3}, Random{42, 8, 3}, Random{42, 7, 4}}) {
    double sum = 0;
    for (int i = 0; i < n; ++i)
      sum += (uniform(base, std::uint64_t(i)) - 0.5) * (uniform(other, std::uint64_t(i)) - 0.5);
    EXPECT_LT(std::fabs(sum * 12 / std::sqrt(n)), 5);  // the standard deviation is 1
  }
}

}  // namespace
}  // namespace foldgrad
