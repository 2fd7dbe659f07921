// Computes Random::bits16 (engine/philox.h) for many elements at once on the CPU. One vector computes several blocks.
#pragma once
#include <algorithm>
#include <cstring>
#include <utility>
#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "engine/philox.h"

namespace foldgrad {

constexpr int kPhiloxElements = 256;  // the number of elements that one call generates, in 32 blocks

namespace philox_block {

// Each lane has a 32-bit word of one block's counter in its lower half. The upper half may hold anything.
#if defined(__AVX512F__)
constexpr int kLanes = 8;
#elif defined(__AVX2__)
constexpr int kLanes = 4;
#else
constexpr int kLanes = 2;
#endif
using Lanes = std::uint64_t __attribute__((vector_size(8 * kLanes)));

// Multiplies the lower halves of the lanes. The compiler would not choose this instruction (vpmuludq) on its own.
inline Lanes multiply(Lanes a, Lanes b) {
#if defined(__AVX512F__)
  return Lanes(_mm512_maskz_mul_epu32(0xFF, __m512i(a), __m512i(b)));  // without a mask, GCC warns (bug 105593)
#elif defined(__AVX2__)
  return Lanes(_mm256_mul_epu32(__m256i(a), __m256i(b)));
#elif defined(__SSE2__)
  return Lanes(_mm_mul_epu32(__m128i(a), __m128i(b)));
#else
  return (a & 0xFFFFFFFFu) * (b & 0xFFFFFFFFu);
#endif
}

inline Lanes lanes(std::uint64_t value) { return Lanes{} + value; }

// Puts a[kFirst + i] and b[kFirst + i] into lanes 2 i and 2 i + 1, for half of the lanes of a and b.
template <int kFirst, int... i>
Lanes interleave(Lanes a, Lanes b, std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(a, b, (kFirst + i / 2 + i % 2 * kLanes)...);
}

// generate() computes kVectors * kLanes blocks at once: with a single vector, each multiplication would wait for the
// previous one.
constexpr int kVectors = 4;
constexpr auto kPlaces = std::make_integer_sequence<int, kLanes>();
inline void generate(const Random& random, std::uint64_t first_block, std::uint16_t* out) {
  Lanes index{};
  for (int i = 0; i < kLanes; ++i) index[i] = std::uint64_t(i);
  Lanes c0[kVectors], c1[kVectors], c2[kVectors], c3[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    const Lanes block = index + (random.first_block + first_block + std::uint64_t(v * kLanes));
    c0[v] = block;
    c1[v] = block >> 32;
    c2[v] = lanes(random.stream);
    c3[v] = lanes(random.step);
  }
  Lanes key0 = lanes(std::uint32_t(random.seed)), key1 = lanes(random.seed >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const Lanes product0 = multiply(lanes(0xD2511F53u), c0[v]), product1 = multiply(lanes(0xCD9E8D57u), c2[v]);
      c0[v] = (product1 >> 32) ^ c1[v] ^ key0;
      c2[v] = (product0 >> 32) ^ c3[v] ^ key1;
      c1[v] = product1;
      c3[v] = product0;
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  for (int v = 0; v < kVectors; ++v) {
    // In memory, a block is two lanes of four half-words each. The lowest half-word comes first (little-endian).
    const Lanes words01 = (c0[v] & 0xFFFFFFFFu) | (c1[v] << 32), words23 = (c2[v] & 0xFFFFFFFFu) | (c3[v] << 32);
    const Lanes halves[2] = {interleave<0>(words01, words23, kPlaces),
                             interleave<kLanes / 2>(words01, words23, kPlaces)};
    std::memcpy(out + v * 8 * kLanes, halves, sizeof halves);
  }
}

}  // namespace philox_block

// Sets out[i] = random.bits16(first + i) for i < kPhiloxElements; `first` must be a multiple of 8.
// The function is not inlined, since otherwise every loop that draws random numbers would contain a copy of it.
[[gnu::noinline]] inline void philox_bits16(const Random& random, std::uint64_t first, std::uint32_t* out) {
  alignas(64) std::uint16_t halves[kPhiloxElements];
  constexpr int kBlocks = philox_block::kVectors * philox_block::kLanes;
  for (int b = 0; b < kPhiloxElements / 8; b += kBlocks)
    philox_block::generate(random, first / 8 + std::uint64_t(b), halves + 8 * b);
    // We widen the elements here. If generate() wrote 32-bit elements, GCC 12 would use only half the vector width.
#pragma omp simd
  for (int i = 0; i < kPhiloxElements; ++i) out[i] = halves[i];
}

// Calls body(i, end_i, bits) for consecutive parts [i, end_i) of [begin, end), where bits[k] = random.bits16(i + k).
void with_random_bits16(const Random& random, std::int64_t begin, std::int64_t end, const auto& body) {
  alignas(64) std::uint32_t bits[kPhiloxElements];
  while (begin < end) {
    const std::int64_t skipped = begin % 8, part = std::min(end - begin, kPhiloxElements - skipped);
    philox_bits16(random, std::uint64_t(begin - skipped), bits);
    body(begin, begin + part, bits + skipped);
    begin += part;
  }
}

}  // namespace foldgrad
