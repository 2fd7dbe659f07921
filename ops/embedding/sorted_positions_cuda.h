// Positions in the order of the rows that they chose, those of a row in their own order: a radix sort by digits of 8
// bits, the lowest first. Each pass keeps the order of equal digits, so nothing depends on which thread comes first.
// For .cu files.
#pragma once
#include "engine/cuda/reduce.h"
#include "ops/embedding/embedding_kernels.h"

namespace foldgrad::sorted_positions {

constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits;
constexpr int kThreads = kDigits;  // one per digit
constexpr int kWarps = kThreads / kWarp;
constexpr int kRounds = 4;                  // positions per thread; not tuned
constexpr int kTile = kThreads * kRounds;   // positions per block
constexpr int kWarpTile = kWarp * kRounds;  // neighbouring ones, of a warp

// The row of position m. Positions that do not count come after all others.
template <class T>
__device__ std::int64_t row_of(const EmbeddingBackward<T>& p, int m) {
  return p.counts(p.ids[m]) ? p.ids[m] : p.rows;
}

template <class T>
struct Pass {
  EmbeddingBackward<T> p;
  const int* from;  // [positions], sorted by lower digits; null: as they come
  int* to;          // [positions]
  int* counts;      // [tiles, kDigits]
  int shift;        // of the digit

  __device__ int position(std::int64_t i) const { return from ? from[i] : int(i); }
  __device__ int digit(int m) const { return int(row_of(p, m) >> shift) & (kDigits - 1); }
};

// How many positions of its tile have each digit.
template <class T>
__global__ void __launch_bounds__(kThreads) count_kernel(Pass<T> s) {
  int* counts = dynamic_shared<int>();  // [kDigits]
  counts[threadIdx.x] = 0;
  __syncthreads();
  for (int round = 0; round < kRounds; ++round) {
    const std::int64_t i = std::int64_t(blockIdx.x) * kTile + round * kThreads + threadIdx.x;
    if (i < s.p.positions) atomicAdd(&counts[s.digit(s.position(i))], 1);
  }
  __syncthreads();
  s.counts[std::int64_t(blockIdx.x) * kDigits + threadIdx.x] = counts[threadIdx.x];
}

__device__ inline int count_lanes(unsigned lanes) {
#ifdef __CUDACC__
  return __popc(lanes);
#else
  return __builtin_popcount(lanes);
#endif
}

// The lanes of the warp that have the same digit, of those that have one.
__device__ inline unsigned lanes_with(int digit, bool has_one) {
  unsigned lanes = __ballot_sync(0xffffffffu, has_one);
  for (int bit = 0; bit < kDigitBits; ++bit) {
    const unsigned set = __ballot_sync(0xffffffffu, digit >> bit & 1);
    lanes &= digit >> bit & 1 ? set : ~set;
  }
  return lanes;
}

// Where the positions of this tile whose digit is threadIdx.x begin: after those of lower digits, and those of
// the same digit in earlier tiles.
template <class T>
__device__ int start_of_digit(const Pass<T>& s, int* below) {
  int total = 0, before = 0;
  for (unsigned tile = 0; tile < gridDim.x; ++tile) {
    const int count = s.counts[std::int64_t(tile) * kDigits + threadIdx.x];
    total += count;
    before += tile < blockIdx.x ? count : 0;
  }
  below[threadIdx.x] = total;
  __syncthreads();
  for (unsigned distance = 1; distance < kDigits; distance *= 2) {
    const int left = threadIdx.x >= distance ? below[threadIdx.x - distance] : 0;
    __syncthreads();
    below[threadIdx.x] += left;
    __syncthreads();
  }
  return below[threadIdx.x] - total + before;
}

// Shared: ends [kWarps, kDigits], how many positions of each digit a warp has placed so far; below [kDigits].
constexpr std::size_t kPlaceBytes = (kWarps + 1) * kDigits * sizeof(int);

template <class T>
__global__ void __launch_bounds__(kThreads) place_kernel(Pass<T> s) {
  int *ends = dynamic_shared<int>(), *below = ends + kWarps * kDigits;
  const int lane = int(threadIdx.x) % kWarp, warp = int(threadIdx.x) / kWarp;
  for (int w = 0; w < kWarps; ++w) ends[w * kDigits + int(threadIdx.x)] = 0;
  __syncthreads();
  const std::int64_t first = std::int64_t(blockIdx.x) * kTile + warp * kWarpTile + lane;
  int positions[kRounds], places[kRounds];  // the end of its digit in this warp, at first
  FOLDGRAD_UNROLL
  for (int round = 0; round < kRounds; ++round) {
    const bool inside = first + round * kWarp < s.p.positions;
    positions[round] = inside ? s.position(first + round * kWarp) : 0;
    const int digit = inside ? s.digit(positions[round]) : 0;
    const unsigned same = lanes_with(digit, inside);
    int* end = &ends[warp * kDigits + digit];
    places[round] = *end + count_lanes(same & ((1u << lane) - 1));
    __syncwarp();
    if (inside && same >> lane == 1u) *end = places[round] + 1;  // the last of them
    __syncwarp();
  }
  int start = start_of_digit(s, below);  // its barriers make all ends visible
  for (int w = 0; w < kWarps; ++w) {
    int* end = &ends[w * kDigits + int(threadIdx.x)];
    const int count = *end;
    *end = start;
    start += count;
  }
  __syncthreads();
  FOLDGRAD_UNROLL
  for (int round = 0; round < kRounds; ++round)
    if (first + round * kWarp < s.p.positions)
      s.to[ends[warp * kDigits + s.digit(positions[round])] + places[round]] = positions[round];
}

// Returns the number of ints that sort() needs as scratch.
template <class T>
std::size_t scratch_size(const EmbeddingBackward<T>& p) {
  return 2 * std::size_t(p.positions) + std::size_t(blocks_for(p.positions, kTile)) * kDigits;
}

// In `scratch`.
template <class T>
const int* sort(const EmbeddingBackward<T>& p, int* scratch) {
  const unsigned tiles = blocks_for(p.positions, kTile);
  int* orders[2] = {scratch, scratch + p.positions};
  const int* sorted = nullptr;
  for (int pass = 0; pass == 0 || p.rows >> pass * kDigitBits != 0; ++pass) {
    const Pass<T> s{p, sorted, orders[pass % 2], scratch + 2 * p.positions, pass * kDigitBits};
    launch("embedding backward: count", count_kernel<T>, {dim3(tiles), dim3(kThreads), kDigits * sizeof(int)}, s);
    launch("embedding backward: place", place_kernel<T>, {dim3(tiles), dim3(kThreads), kPlaceBytes}, s);
    sorted = s.to;
  }
  return sorted;
}

}  // namespace foldgrad::sorted_positions
