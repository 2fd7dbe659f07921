// The CPU side of multi_tensor.h.
#pragma once
#include <vector>

#include "train/loop/optimizer/multi_tensor.h"

namespace foldgrad {

// Calls body(tensor, piece of this tensor, piece of all) for every piece, on all threads.
template <class T, class Body>
void for_each_piece_cpu(const std::vector<T>& tensors, const Body& body) {
  constexpr std::int64_t kParallelPieces = 8;  // below, starting the threads costs more than they save
  std::vector<std::int64_t> offsets{0};
  for (const T& t : tensors) offsets.push_back(offsets.back() + t.pieces());
  const std::int64_t pieces = offsets.back();
#pragma omp parallel for schedule(static) if (pieces >= kParallelPieces)
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    const int k = tensor_of_piece(offsets.data(), int(tensors.size()), piece);
    body(tensors[k], piece - offsets[k], piece);
  }
}

}  // namespace foldgrad
