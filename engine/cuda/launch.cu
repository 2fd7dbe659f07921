#include <cstdlib>
#include <stdexcept>
#include <string>

#include "engine/cuda/launch.h"

#ifdef __CUDACC__
#include "engine/cuda/runtime/device_guard.h"
#endif

namespace foldgrad {
namespace {

std::string describe(const Blocks& b) {
  return std::to_string(b.x) + " x " + std::to_string(b.y) + " x " + std::to_string(b.z);
}

#ifdef __CUDACC__
bool waits_for_each_kernel() {
  static const char* const value = std::getenv("FOLDGRAD_CUDA_BLOCKING");
  static const bool waits = value && std::string(value) == "1";
  return waits;
}

// Lets a kernel use more than 48 KiB of shared memory; CUDA requires this call.
void allow_shared_bytes(const char* name, const void* kernel, std::size_t bytes) {
  if (bytes <= 48 * 1024) return;
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes));
  if (error == cudaSuccess) return;
  cudaGetLastError();
  throw std::runtime_error(std::string(name) + ": this GPU cannot give a block " + std::to_string(bytes) +
                           " bytes of shared memory: " + cudaGetErrorString(error));
}
#endif

}  // namespace

dim3 checked_blocks(const char* name, const Blocks& blocks) {
  constexpr std::int64_t kMostX = 0x7fffffff;
  if (blocks.x < 0 || blocks.x > kMostX || blocks.y < 0 || blocks.y > kMostBlocks || blocks.z < 0 ||
      blocks.z > kMostBlocks)
    throw std::runtime_error(std::string(name) + ": a grid must have at most 2147483647 x 65535 x 65535 blocks, got " +
                             describe(blocks));
  return dim3(unsigned(blocks.x), unsigned(blocks.y), unsigned(blocks.z));
}

#ifdef __CUDACC__
// Checks the status that the launch returns, since cudaGetLastError may return another library's error.
void launch_kernel(const char* name, const void* kernel, const Grid& grid, void* params) {
  const CudaDeviceGuard guard;
  allow_shared_bytes(name, kernel, grid.shared_bytes);
  cudaLaunchConfig_t config = {};
  config.gridDim = checked_blocks(name, grid.blocks);
  config.blockDim = grid.threads;
  config.dynamicSmemBytes = grid.shared_bytes;
  config.stream = cuda_stream();
  void* arguments[] = {params};
  if (const cudaError_t error = cudaLaunchKernelExC(&config, kernel, arguments); error != cudaSuccess) {
    cudaGetLastError();  // clears the error, since we report it and other libraries should not see it
    throw std::runtime_error(std::string(name) + ": launch of " + describe(grid.blocks) + " blocks of " +
                             std::to_string(grid.threads.x * grid.threads.y * grid.threads.z) + " threads with " +
                             std::to_string(grid.shared_bytes) +
                             " bytes of shared memory failed: " + cudaGetErrorString(error));
  }
  if (!waits_for_each_kernel()) return;
  if (const cudaError_t error = cudaStreamSynchronize(config.stream); error != cudaSuccess)
    throw std::runtime_error(std::string(name) + ": the kernel failed: " + cudaGetErrorString(error));
}
#endif

}  // namespace foldgrad
