// One pass over many tensors. Every tensor is cut into pieces, and the pieces of all tensors are numbered through, so
// that threads share the work evenly whatever the sizes. A kernel's tensor type says how many pieces() it has.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/host_device.h"

namespace foldgrad {

// Elements in a piece of those passes that see a tensor as a vector. Not tuned.
constexpr std::int64_t kPieceElements = 4096;

FOLDGRAD_HD inline std::int64_t element_pieces(std::int64_t size) {
  return (size + kPieceElements - 1) / kPieceElements;
}

// Elements [begin, end) of piece number `piece` of a tensor of `size` elements.
struct PieceRange {
  std::int64_t begin, end;
  FOLDGRAD_HD PieceRange(std::int64_t piece, std::int64_t size)
      : begin(piece * kPieceElements), end(begin + kPieceElements < size ? begin + kPieceElements : size) {}
};

// The tensor that holds a piece: the last k < tensors with offsets[k] <= piece. Tensors without pieces are never found.
template <class Index>
FOLDGRAD_HD int tensor_of_piece(const Index* offsets, int tensors, Index piece) {
  int low = 0, high = tensors;  // offsets[low] <= piece < offsets[high]
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (offsets[middle] <= piece)
      low = middle;
    else
      high = middle;
  }
  return low;
}

template <class T>
std::int64_t total_pieces(const std::vector<T>& tensors) {
  std::int64_t pieces = 0;
  for (const T& t : tensors) pieces += t.pieces();
  return pieces;
}

}  // namespace foldgrad
