// All kernels are launched here. Without nvcc, they run on the host, with one fiber per CUDA thread (emulation/).
//
// The emulation enforces our rules for kernels: a kernel takes one parameter struct by value and obtains shared memory
// only from dynamic_shared<T>() or shared_array<T>(), and no thread returns before a barrier that other threads of its
// block have yet to reach.
//
// If a kernel fails while it runs, the next wait for the device throws an error without the kernel's name. With
// FOLDGRAD_CUDA_BLOCKING=1 in the environment, every launch waits for its kernel, and the error names the kernel.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#include "engine/cuda/runtime/cudart.h"
#else
#include "emulation/bank_conflicts.h"  // includes cuda_emulation.h
#endif

// Loops over a thread's arrays must be unrolled, by the compiler or by this pragma; otherwise the arrays are in memory
// instead of registers. Only nvcc supports the pragma. If the array indices need not be constants, unrolling by 2 or 4
// saves registers and still overlaps the loads of several iterations.
#ifdef __CUDACC__
#define FOLDGRAD_UNROLL _Pragma("unroll")
#define FOLDGRAD_UNROLL_BY_2 _Pragma("unroll 2")
#define FOLDGRAD_UNROLL_BY_4 _Pragma("unroll 4")
#define FOLDGRAD_NO_UNROLL _Pragma("unroll 1")
#else
#define FOLDGRAD_UNROLL
#define FOLDGRAD_UNROLL_BY_2
#define FOLDGRAD_UNROLL_BY_4
#define FOLDGRAD_NO_UNROLL
#endif

namespace foldgrad {

#ifdef __CUDACC__
template <class T>
__device__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char raw_shared[];
  return reinterpret_cast<T*>(raw_shared);
}
// A pointer to shared memory. The emulation replaces it with a class that records its accesses, to find bank
// conflicts (bank_conflicts.h).
template <class T>
using SharedArray = T*;
template <class T>
__device__ SharedArray<T> shared_array() {
  return dynamic_shared<T>();
}
#else
template <class T>
T* dynamic_shared() {
  return static_cast<T*>(emulation::dynamic_shared());
}
using emulation::SharedArray;
template <class T>
SharedArray<T> shared_array() {
  return SharedArray<T>(emulation::dynamic_shared());
}
#endif

// The numbers of blocks in x, y and z, as 64-bit integers. launch() checks that a GPU supports them.
struct Blocks {
  std::int64_t x, y, z;
  constexpr Blocks(std::int64_t x_ = 1, std::int64_t y_ = 1, std::int64_t z_ = 1) : x(x_), y(y_), z(z_) {}
  constexpr Blocks(const dim3& d) : x(d.x), y(d.y), z(d.z) {}
};

struct Grid {
  Blocks blocks;
  dim3 threads;
  std::size_t shared_bytes = 0;  // dynamic shared memory of a block, at most 99 KiB
};

constexpr std::int64_t kMostBlocks = 65535;  // the limit for the y and z dimensions of a grid

// Returns `blocks` in CUDA's type. Throws std::runtime_error if there are more blocks than a GPU supports: 2^31 - 1 in
// x, kMostBlocks in y and in z.
dim3 checked_blocks(const char* name, const Blocks& blocks);

#ifdef __CUDACC__
// Throws std::runtime_error with the kernel's name if the kernel cannot be launched.
void launch_kernel(const char* name, const void* kernel, const Grid& grid, void* params);
#endif

// Launches a kernel. `name` names the operation and the kernel in error messages.
template <class Params>
void launch(const char* name, void (*kernel)(Params), const Grid& grid, const Params& params) {
  if (grid.blocks.x == 0 || grid.blocks.y == 0 || grid.blocks.z == 0) return;  // there are no elements
#ifdef __CUDACC__
  launch_kernel(name, reinterpret_cast<const void*>(kernel), grid, const_cast<Params*>(&params));
#else
  const dim3 blocks = checked_blocks(name, grid.blocks);
  emulation::run(name, blocks, grid.threads, grid.shared_bytes, [&] { kernel(params); });
#endif
}

// Returns the number of blocks that cover n elements.
inline std::int64_t blocks_for(std::int64_t n, std::int64_t per_block) { return (n + per_block - 1) / per_block; }

}  // namespace foldgrad
