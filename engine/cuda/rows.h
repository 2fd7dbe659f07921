// The CUDA side of operations along the rows of a matrix: one block per row. For .cu files.
#pragma once
#include "engine/cuda/reduce.h"

namespace foldgrad {

constexpr int kRowThreads = 256;  // not tuned

// With shared memory for block_reduce on Values.
template <class Value>
Grid one_block_per_row(std::int64_t rows) {
  return {rows, dim3(kRowThreads), kRowThreads / kWarp * sizeof(Value)};
}

}  // namespace foldgrad
