// Reductions within a warp and a block, in a fixed order, so results are bit-identical on every run. This header
// is for .cu files.
#pragma once
#include "engine/cuda/launch.h"

namespace foldgrad {

constexpr int kWarp = 32;
// The number of values of type T that shared memory can read or write at once, each in its own bank.
template <class T>
constexpr int kBanks = int(128 / sizeof(T));

struct Sum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Max {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a > b ? a : b;  // may drop a NaN; sums over the same numbers keep it
  }
};

// Returns the value of lane (own lane XOR distance). A struct may have its own overload, which the reductions then use.
template <class T>
__device__ T shuffle_xor(T v, int distance) {
  return __shfl_xor_sync(0xffffffffu, v, distance);
}
template <class T, class Combine>
__device__ T warp_reduce(T v, Combine combine) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) v = combine(v, shuffle_xor(v, distance));
  return v;
}

// Reduces over the block and returns the result to every thread. All threads must call it, and the block must consist
// of whole warps. `scratch` is shared memory for one T per warp. combine(identity, x) must be x.
template <class T, class Combine>
__device__ T block_reduce(T v, T* scratch, T identity, Combine combine) {
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x, lane = thread % kWarp, warp = thread / kWarp,
                 warps = blockDim.x * blockDim.y / kWarp;
  v = warp_reduce(v, combine);
  __syncthreads();  // an earlier reduction may still be reading scratch
  if (lane == 0) scratch[warp] = v;
  __syncthreads();
  return warp_reduce(lane < warps ? scratch[lane] : identity, combine);
}
template <class T>
__device__ T block_sum(T v, T* scratch) {
  return block_reduce(v, scratch, T(0), Sum{});
}

constexpr int kRowThreads = 256;  // not tuned

// Returns a grid with one block per row and the shared memory that block_reduce needs for Value.
template <class Value>
Grid one_block_per_row(std::int64_t rows) {
  return {rows, dim3(kRowThreads), kRowThreads / kWarp * sizeof(Value)};
}

}  // namespace foldgrad
