// The stream and the errors of the CUDA runtime. For files that are compiled with it.
#pragma once
#include <cuda_runtime.h>

#include <cstddef>

namespace foldgrad {

// Throws std::runtime_error unless the call succeeded, and forgets the error, which would be blamed on the next call.
void check_cuda(cudaError_t error, const char* call);

// Returns the stream of all kernels and copies of this process on cuda_device(), and makes that current on this thread.
cudaStream_t cuda_stream();

namespace memory {

// Copies from the host to the device without waiting for the kernels before. The source may be changed as soon as this
// returns. Throws std::runtime_error when the copy fails.
void upload(void* target, const void* source, std::size_t bytes);

}  // namespace memory

}  // namespace foldgrad
