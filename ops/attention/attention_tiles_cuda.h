// The two matrix products of the attention kernels, for blocks of 256 threads. The threads' registers hold a tile of 32
// x 32 scores and up to 32 x 128 sums. This header is for .cu files.
//
// Thread (x, y), with x and y in 0 ... 15, owns rows y and y + 16. It owns columns x and x + 16 of the scores, and
// columns x, x + 16, ..., x + 112 of the sums. So half a warp, 16 threads, shares a row.
#pragma once
#include "engine/cuda/launch.h"
#include "ops/attention/attention_kernels.h"

namespace foldgrad::attention_tiles {

constexpr int kTile = 32;
constexpr int kSide = 16;
constexpr int kThreads = kSide * kSide;
constexpr int kPerThread = kTile / kSide;
constexpr int kTileRow = kTile + 1;  // one extra column puts a column's elements into different banks
constexpr int kTileElements = kTile * kTileRow;
constexpr int kChunks = kMaxHeadWidth / kTile;

template <class V>
using Scores = V[kPerThread][kPerThread];
template <class V>
using Sums = V[kPerThread][kChunks][kPerThread];

__device__ inline int thread_x() { return int(threadIdx.x) % kSide; }
__device__ inline int row_of(int a) { return int(threadIdx.x) / kSide + a * kSide; }
__device__ inline int column_of(int b) { return thread_x() + b * kSide; }

// Rows of a head: n rows of `width` columns, `row` elements apart.
template <class T>
struct Rows {
  const T* data;
  std::int64_t row;
  int n, width;
};

// Loads columns first ... first + 31 of the rows; elements outside the matrix become zeros.
template <class T, class V>
__device__ void load_tile(V* tile, const Rows<T>& rows, int first) {
  for (int e = int(threadIdx.x); e < kTile * kTile; e += kThreads) {
    const int r = e / kTile, c = e % kTile;
    const bool inside = r < rows.n && first + c < rows.width;
    tile[r * kTileRow + c] = inside ? V(rows.data[r * rows.row + first + c]) : V(0);
  }
}

// Computes scores = A B^T: entry (a, b) is the dot product of row a of A and row b of B. `room` holds two tiles.
template <class T, class V>
__device__ void row_products(Scores<V>& scores, const Rows<T>& a, const Rows<T>& b, V* room) {
  V *tile_a = room, *tile_b = room + kTileElements;
  FOLDGRAD_UNROLL
  for (auto& row : scores) {
    FOLDGRAD_UNROLL
    for (V& score : row) score = 0;
  }

  for (int first = 0; first < a.width; first += kTile) {
    __syncthreads();  // the tiles may still be in use
    load_tile(tile_a, a, first);
    load_tile(tile_b, b, first);
    __syncthreads();
    for (int c = 0; c < kTile; ++c) {
      FOLDGRAD_UNROLL
      for (int i = 0; i < kPerThread; ++i) {
        FOLDGRAD_UNROLL
        for (int j = 0; j < kPerThread; ++j)
          scores[i][j] += tile_a[row_of(i) * kTileRow + c] * tile_b[column_of(j) * kTileRow + c];
      }
    }
  }
}

// Adds W B to `sums`. The weights W [32, 32] are in shared memory; B is [b.n, width]. `tile_b` holds a tile of B.
template <class T, class V>
__device__ void add_weighted_rows(Sums<V>& sums, const V* weights, const Rows<T>& b, V* tile_b) {
  FOLDGRAD_UNROLL
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    if (chunk * kTile >= b.width) break;
    __syncthreads();  // threads may still be reading the tile or writing the weights
    load_tile(tile_b, b, chunk * kTile);
    __syncthreads();
    for (int t = 0; t < kTile; ++t) {
      FOLDGRAD_UNROLL
      for (int i = 0; i < kPerThread; ++i) {
        FOLDGRAD_UNROLL
        for (int j = 0; j < kPerThread; ++j)
          sums[i][chunk][j] += weights[row_of(i) * kTileRow + t] * tile_b[t * kTileRow + column_of(j)];
      }
    }
  }
}

// Calls put(row, column, sum) for the sums inside [rows, width].
template <class V, class Put>
__device__ void for_sums(const Sums<V>& sums, int rows, int width, const Put& put) {
  FOLDGRAD_UNROLL
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    FOLDGRAD_UNROLL
    for (int i = 0; i < kPerThread; ++i) {
      FOLDGRAD_UNROLL
      for (int j = 0; j < kPerThread; ++j) {
        const int column = chunk * kTile + column_of(j);
        if (row_of(i) < rows && column < width) put(row_of(i), column, sums[i][chunk][j]);
      }
    }
  }
}

// Reduces v over the 16 threads that share a row, in a fixed order. All 16 threads get the result.
template <class V, class Combine>
__device__ V row_reduce(V v, Combine combine) {
  for (int distance = kSide / 2; distance > 0; distance /= 2) v = combine(v, __shfl_xor_sync(0xffffffffu, v, distance));
  return v;
}

// Returns the number of positions below n that are in the tile that begins at `first`.
__device__ inline int in_tile(int n, int first) { return n - first < kTile ? n - first : kTile; }

FOLDGRAD_HD inline std::int64_t tiles(std::int64_t positions) { return (positions + kTile - 1) / kTile; }

// Returns a grid with one block per head and tile. `count` is the number of tiles of a head, at most 65535.
inline Grid grid_of(const AttentionShape& s, std::int64_t count, std::size_t shared_bytes) {
  return {Blocks(s.segments * s.heads, count), dim3(kThreads), shared_bytes};
}

}  // namespace foldgrad::attention_tiles
