// What one block does when all have done their part. The last block to be done goes on with what the others have
// written, where otherwise a second kernel would start for that. Which block it is differs from run to run, but not
// what it computes, if it reads in an order of its own. For .cu files.
#pragma once
#include "engine/cuda/arrivals.h"
#include "engine/cuda/launch.h"

namespace foldgrad {

// Whether this block is the last of `blocks` to come to this counter; then all its threads see what the others had
// written before. The counter is zero again behind it. To be called by all threads of a block, with shared memory for
// one unsigned.
__device__ inline bool is_last_block(unsigned* counter, unsigned blocks) {
  unsigned* before = dynamic_shared<unsigned>();
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    *before = atomicAdd(counter, 1u);
    if (*before + 1 == blocks) *counter = 0;
  }
  __syncthreads();
  const bool last = *before + 1 == blocks;
  __syncthreads();  // the shared memory is free again
  if (last) __threadfence();
  return last;
}

}  // namespace foldgrad
