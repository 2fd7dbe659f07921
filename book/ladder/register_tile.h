// The elements of C that a thread keeps in its registers, for rungs 3 and 4 of the ladder. A thread reads 16 numbers
// from shared memory for every 64 multiply-adds. This header is for .cu files.
#pragma once
#include "book/ladder/ladder.h"
#include "engine/cuda/pack.h"

namespace foldgrad::ladder {

// A block of 16 x 16 threads computes kTile x kTile elements of C in steps of kDepth along k. For each step, shared
// memory holds a tile [kTile, kDepth] of A, followed by a tile [kDepth, kTile] of B. The rows and columns of a thread
// are 16 apart, so that neighbouring threads read neighbouring elements.
constexpr int kTile = 128, kDepth = 16, kSide = 16, kThreads = kSide * kSide, kPerThread = kTile / kSide;
constexpr int kTileB = kTile * kDepth, kTiles = 2 * kTileB;  // offsets at which the tile of B begins and ends

struct RegisterTile {
  float sums[kPerThread][kPerThread] = {};

  __device__ static int row(int u) { return int(threadIdx.x) / kSide + u * kSide; }
  __device__ static int column(int v) { return int(threadIdx.x) % kSide + v * kSide; }

  // Adds the product of the two tiles, which begin at element `first` of shared memory.
  __device__ void add_products(const SharedArray<float>& tiles, int first) {
    FOLDGRAD_UNROLL_BY_4
    for (int p = 0; p < kDepth; ++p) {
      float a[kPerThread];
      FOLDGRAD_UNROLL
      for (int u = 0; u < kPerThread; ++u) a[u] = tiles[first + row(u) * kDepth + p];
      FOLDGRAD_UNROLL
      for (int v = 0; v < kPerThread; ++v) {
        const float b = tiles[first + kTileB + p * kTile + column(v)];
        FOLDGRAD_UNROLL
        for (int u = 0; u < kPerThread; ++u) sums[u][v] += a[u] * b;
      }
    }
  }
  // Stores the sums in C. The block's part of C begins at element [first_i, first_j].
  __device__ void store(const Product<float>& g, std::int64_t first_i, std::int64_t first_j) const {
    FOLDGRAD_UNROLL
    for (int u = 0; u < kPerThread; ++u) {
      FOLDGRAD_UNROLL
      for (int v = 0; v < kPerThread; ++v) {
        const std::int64_t i = first_i + row(u), j = first_j + column(v);
        store_pack(g.c + i * g.n + j, Pack<float, 1>{{sums[u][v]}}, i < g.m && j < g.n);
      }
    }
  }
};

}  // namespace foldgrad::ladder
