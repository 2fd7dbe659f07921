// Copies tiles to shared memory while the block computes, for rungs 4 and 5 of the ladder. This header is for .cu
// files.
#pragma once
#include "book/ladder/ladder.h"
#include "engine/cuda/async_copy.h"

namespace foldgrad::ladder {

// The tiles of one step in shared memory: first a tile [kTile, kDepth] of A, then a tile [kDepth, kTile] of B. kGap
// unused elements separate the rows.
template <class T, int kTile, int kDepth, int kGap>
struct Tiles {
  static constexpr int kRowA = kDepth + kGap, kRowB = kTile + kGap;  // elements between the starts of two rows
  static constexpr int kB = kTile * kRowA, kSize = kB + kDepth * kRowB;
  static constexpr int kChunk = 16 / int(sizeof(T));  // elements per copy

  // Starts copying the tiles that begin at row first_i of A, column first_j of B and index first_p along k, as one
  // group of copies. Elements outside A and B become zeros. If first_p >= g.k, the group is empty.
  __device__ static void begin_copies(T* tiles, const Product<T>& g, std::int64_t first_i, std::int64_t first_j,
                                      std::int64_t first_p) {
    FOLDGRAD_UNROLL
    for (int e = int(threadIdx.x) * kChunk; e < kTile * kDepth && first_p < g.k; e += int(blockDim.x) * kChunk) {
      const std::int64_t i = first_i + e / kDepth, pa = first_p + e % kDepth;
      const std::int64_t pb = first_p + e / kTile, j = first_j + e % kTile;
      const bool a_inside = i < g.m && pa < g.k, b_inside = pb < g.k && j < g.n;
      async_copy16(tiles + e / kDepth * kRowA + e % kDepth, g.a + (a_inside ? i * g.k + pa : 0), a_inside);
      async_copy16(tiles + kB + e / kTile * kRowB + e % kTile, g.b + (b_inside ? pb * g.n + j : 0), b_inside);
    }
    async_commit();
  }
};

}  // namespace foldgrad::ladder
