// The CUDA side of multi_tensor.h: one block per piece, one launch per 512 tensors. For .cu files.
//
// The table of tensors travels in the kernel's parameters. In device memory it would have to be copied there before
// every step, since gradients may move, and that copy waits for the GPU.
#pragma once
#include <vector>

#include "engine/cuda/reduce.h"
#include "train/loop/optimizer/multi_tensor.h"

namespace foldgrad {

constexpr int kMultiTensorThreads = 256;  // not tuned

template <class T, class F>
struct MultiTensor {
  static constexpr int kTensors = 512;
  F f;
  T tensors[kTensors];
  std::int32_t offsets[kTensors + 1];  // first piece of each, counted in this launch
  int count;
  std::int64_t pieces_before;  // in earlier launches
};

template <class T, class F>
__global__ void multi_tensor_kernel(MultiTensor<T, F> p) {
  const std::int32_t piece = std::int32_t(blockIdx.x);
  const int k = tensor_of_piece(p.offsets, p.count, piece);
  const T tensor = p.tensors[k];
  p.f(tensor, std::int64_t(piece - p.offsets[k]), p.pieces_before + piece);
}

// All threads of a block call f(tensor, piece of this tensor, piece of all). Shared memory: one double per warp.
template <class T, class F>
void for_each_piece_cuda(const char* name, const std::vector<T>& tensors, const F& f) {
  using Params = MultiTensor<T, F>;
  static_assert(sizeof(Params) <= 32764, "what GPUs from architecture 70 on take as parameters of a kernel");
  std::int64_t before = 0;
  for (std::size_t begin = 0; begin < tensors.size(); begin += Params::kTensors) {
    Params p{f, {}, {}, 0, before};
    for (std::size_t k = begin; k < tensors.size() && p.count < Params::kTensors; ++k) {
      p.tensors[p.count] = tensors[k];
      p.offsets[p.count + 1] = p.offsets[p.count] + std::int32_t(tensors[k].pieces());
      ++p.count;
    }
    const std::int32_t pieces = p.offsets[p.count];
    const Grid grid{pieces, dim3(kMultiTensorThreads), kMultiTensorThreads / kWarp * sizeof(double)};
    launch(name, multi_tensor_kernel<T, F>, grid, p);
    before += pieces;
  }
}

}  // namespace foldgrad
