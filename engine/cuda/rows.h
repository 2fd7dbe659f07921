// The CUDA side of operations along the rows of a matrix. For .cu files.
//
// A row that fits is kept in the registers of a warp or of a block: every number is loaded once, in packs, and all that
// follows happens on the chip. Longer rows take a block per row that reads them again for each step; that kernel is the
// plain one, and what the others are tested against.
#pragma once
#include "engine/cuda/pack.h"
#include "engine/cuda/reduce.h"

namespace foldgrad {

constexpr int kRowThreads = 256;  // not tuned

// One block per row, with shared memory for block_reduce on Values.
template <class Value>
Grid one_block_per_row(std::int64_t rows) {
  return {rows, dim3(kRowThreads), kRowThreads / kWarp * sizeof(Value)};
}

constexpr int kWarpsPerBlock = 4;  // where each has a row of its own; not tuned
// Of a block that has one row; not tuned. With more threads there are fewer registers for each.
constexpr int kMiddleRowThreads = 512;
template <class T>
constexpr int kLongRowThreads = sizeof(T) == 8 ? 512 : 1024;

// Share of a thread in a row that kThreads threads hold, K packs of N elements: pack k of thread t begins at column
// (k kThreads + t) N. Behind the row's end the numbers are zeros.
template <class T_, int kThreads_, int N_, int K_>
struct RowShare {
  using T = T_;
  using Value = compute_t<T>;
  static constexpr int kThreads = kThreads_, N = N_, K = K_;
  // Of a whole block; blocks of fewer threads go by the compiler's choice.
  static constexpr int kBlockThreads = kThreads == kWarp ? kWarpsPerBlock * kWarp : kThreads;

  std::int64_t row;
  int columns, thread;

  __device__ explicit RowShare(std::int64_t columns_)
      : row(kThreads == kWarp ? std::int64_t(blockIdx.x) * kWarpsPerBlock + threadIdx.x / kWarp : blockIdx.x),
        columns(int(columns_)),
        thread(int(threadIdx.x) % kThreads) {}

  __device__ int column(int k) const { return (k * kThreads + thread) * N; }
  __device__ bool inside(int k) const { return column(k) < columns; }

  // body(k, e) for element e of each pack k; body(k) for each pack.
  template <class Body>
  __device__ __forceinline__ static void each(const Body& body) {
    FOLDGRAD_UNROLL
    for (int k = 0; k < K; ++k) {
      FOLDGRAD_UNROLL
      for (int e = 0; e < N; ++e) body(k, e);
    }
  }
  template <class Body>
  __device__ __forceinline__ static void each_pack(const Body& body) {
    FOLDGRAD_UNROLL
    for (int k = 0; k < K; ++k) body(k);
  }

  // Of a matrix [rows, columns].
  __device__ __forceinline__ void load(const T* matrix, Value (&values)[K][N]) const {
    FOLDGRAD_UNROLL
    for (int k = 0; k < K; ++k) convert(load_pack<N>(matrix + row * columns + column(k), inside(k)), values[k]);
  }
  // Pack k of what is the same for all rows.
  template <class U>
  __device__ __forceinline__ void load_columns(const U* of_columns, int k, Value (&values)[N]) const {
    constexpr int kPiece = N < kPackSize<U> ? N : kPackSize<U>;
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; e += kPiece) {
      const Pack<U, kPiece> piece = load_cached_pack<kPiece>(of_columns + column(k) + e, inside(k));
      FOLDGRAD_UNROLL
      for (int j = 0; j < kPiece; ++j) values[e + j] = Value(piece.v[j]);
    }
  }
  __device__ __forceinline__ void store(T* matrix, int k, const Value (&values)[N]) const {
    store_pack(matrix + row * columns + column(k), rounded<T>(values), inside(k));
  }
  __device__ __forceinline__ void put(const GradOut<T>& out, int k, const Value (&values)[N]) const {
    put_pack(out, row * columns + column(k), values, inside(k));
  }

  // Over the row, given back to all its threads. A block needs one_block_per_row's shared memory.
  template <class Combine>
  __device__ __forceinline__ Value reduce(Value own, Value identity, Combine combine) const {
    if constexpr (kThreads == kWarp)
      return warp_reduce(own, combine);
    else
      return block_reduce(own, dynamic_shared<Value>(), identity, combine);
  }
  __device__ __forceinline__ Value sum(Value own) const { return reduce(own, Value(0), Sum{}); }

 private:
  __device__ __forceinline__ static void convert(const Pack<T, N>& pack, Value (&values)[N]) {
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e) values[e] = Value(pack.v[e]);
  }
};

// The grid for Share = RowShare<...>.
template <class Share>
Grid row_grid(std::int64_t rows) {
  if (Share::kThreads == kWarp) return {blocks_for(rows, kWarpsPerBlock), dim3(Share::kBlockThreads)};
  return {rows, dim3(Share::kThreads), Share::kThreads / kWarp * sizeof(typename Share::Value)};
}

template <class Share>
struct ShareType {
  using type = Share;
};

// Numbers of a row that a thread holds, at most: with two such rows it stays below 128 registers.
template <class T>
constexpr int kMostRowNumbers = sizeof(T) == 8 ? 16 : 32;

// Calls body(ShareType) for a share in which rows of so many columns fit, and plain() when there is none. Where the
// rows or the operands do not begin at multiples of 16 bytes (`aligned`), each pack is one element.
template <class T, class Body, class Plain>
void with_row_share(std::int64_t columns, bool aligned, const Body& body, const Plain& plain) {
  constexpr int N = kPackSize<T>, kMost = kMostRowNumbers<T>, kHalf = kMost / 2, kFew = kMost / 4;
  if (!aligned || columns % N != 0) {
    if (columns <= kWarp * kFew) return body(ShareType<RowShare<T, kWarp, 1, kFew>>());
    if (columns <= kRowThreads * kFew) return body(ShareType<RowShare<T, kRowThreads, 1, kFew>>());
    return plain();
  }
  if (columns <= kWarp * kFew) return body(ShareType<RowShare<T, kWarp, N, kFew / N>>());
  if (columns <= kWarp * kMost) return body(ShareType<RowShare<T, kWarp, N, kMost / N>>());
  if (columns <= kMiddleRowThreads * kFew) return body(ShareType<RowShare<T, kMiddleRowThreads, N, kFew / N>>());
  constexpr int kLong = kLongRowThreads<T>;
  if (columns <= kLong * kHalf) return body(ShareType<RowShare<T, kLong, N, kHalf / N>>());
  plain();
}

}  // namespace foldgrad
