// The CUDA stream that we use, and checks for CUDA runtime errors. This header needs the CUDA toolkit.
#pragma once
#include <cuda_runtime.h>

#include <cstddef>

namespace foldgrad {

// Throws std::runtime_error unless the call succeeded. Clears the error, which the next call would otherwise report.
void check_cuda(cudaError_t error, const char* call);

// Returns the stream for all our kernels and copies on cuda_device(), and makes this device current on the calling
// thread.
cudaStream_t cuda_stream();

namespace memory {

// Copies from the host to the device without waiting for earlier kernels. The source may be changed as soon as this
// returns. Throws std::runtime_error if the copy fails.
void upload(void* target, const void* source, std::size_t bytes);

}  // namespace memory

}  // namespace foldgrad
