// Permutes the rows of each block of a matrix, for example the tokens of each image, to group them by windows.
//
//   [REINDEX-1]  y_(b N + n) = x_(b N + order_n)     order is a permutation of 0 ... N - 1
//
//   backward:
//   [REINDEX-2]  dx_(b N + n) = dy_(b N + inverse_n)     inverse_(order_n) = n
//
//   [REINDEX-3]  reindex(A x + B) = A reindex(x) + B, for a map of channels
//
//   x, y: [B N, C]. Saved: the order. In PyTorch: x.unflatten(0, (-1, N))[:, order].flatten(0, 1).
//   Example: order {2, 0, 1} and x = {a, b, c, d, e, f} give {c, a, b, f, d, e}.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// A permutation of rows, on one device. Copies share memory.
struct RowOrder {
  Tensor order, inverse;  // i64 [N]

  // Throws std::invalid_argument unless `order` contains each of 0 ... N - 1 exactly once.
  explicit RowOrder(const std::vector<std::int64_t>& order, Device device = Device::cpu);
  RowOrder(const Tensor& order, const Tensor& inverse) : order(order), inverse(inverse) {}
  RowOrder inverted() const { return {inverse, order}; }
};

// Throws std::invalid_argument unless x has 2 axes and a multiple of N rows, and is on the order's device.
Var reindex(const Var& x, const RowOrder& order);

}  // namespace foldgrad
