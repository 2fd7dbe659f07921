// The only place that says <<<>>>. Without nvcc a kernel runs on the host, one fiber per thread (emulation/).
//
// Rules for kernels, which the emulation enforces: one parameter struct by value; shared memory only through
// dynamic_shared<T>(); no return before a barrier that other threads of the block still reach.
#pragma once
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#ifdef __CUDACC__
#include <cuda_runtime.h>
#else
#include "emulation/cuda_emulation.h"
#endif

// Loops over arrays of a thread are unrolled, or the arrays would lie in memory and not in registers. Only nvcc knows
// the pragma. Where the body needs no constant, unrolling by a few saves registers.
#ifdef __CUDACC__
#define FOLDGRAD_UNROLL _Pragma("unroll")
#define FOLDGRAD_UNROLL_BY_2 _Pragma("unroll 2")
#else
#define FOLDGRAD_UNROLL
#define FOLDGRAD_UNROLL_BY_2
#endif

namespace foldgrad {

#ifdef __CUDACC__
// The stream of all kernels and copies of this process.
cudaStream_t cuda_stream();

template <class T>
__device__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char raw_shared[];
  return reinterpret_cast<T*>(raw_shared);
}
#else
template <class T>
T* dynamic_shared() {
  return static_cast<T*>(emulation::dynamic_shared());
}
#endif

#ifdef __CUDACC__
// More than 48 KiB of shared memory a kernel has to ask for.
inline void allow_shared_bytes(const char* name, const void* kernel, std::size_t bytes) {
  if (bytes <= 48 * 1024) return;
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes));
  if (error != cudaSuccess)
    throw std::runtime_error(std::string(name) + ": this GPU does not give a block " + std::to_string(bytes) +
                             " bytes of shared memory: " + cudaGetErrorString(error));
}
#endif

struct Grid {
  dim3 blocks, threads;
  std::size_t shared_bytes = 0;  // at most 99 KiB
};

// `name` is for the error message: the operation and the kernel.
template <class Params>
void launch(const char* name, void (*kernel)(Params), const Grid& grid, const Params& params) {
  if (grid.blocks.x == 0 || grid.blocks.y == 0 || grid.blocks.z == 0) return;  // no elements, nothing to do
#ifdef __CUDACC__
  allow_shared_bytes(name, reinterpret_cast<const void*>(kernel), grid.shared_bytes);
  kernel<<<grid.blocks, grid.threads, grid.shared_bytes, cuda_stream()>>>(params);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess)
    throw std::runtime_error(std::string(name) + ": launch of " + std::to_string(grid.blocks.x) + " x " +
                             std::to_string(grid.blocks.y) + " x " + std::to_string(grid.blocks.z) + " blocks of " +
                             std::to_string(grid.threads.x * grid.threads.y * grid.threads.z) + " threads with " +
                             std::to_string(grid.shared_bytes) +
                             " bytes of shared memory failed: " + cudaGetErrorString(error));
#else
  emulation::run(name, grid.blocks, grid.threads, grid.shared_bytes, [&] { kernel(params); });
#endif
}

// Blocks that cover n elements.
inline unsigned blocks_for(std::int64_t n, int per_block) { return unsigned((n + per_block - 1) / per_block); }

}  // namespace foldgrad
