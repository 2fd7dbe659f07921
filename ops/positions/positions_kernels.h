#pragma once
#include "engine/kernels.h"

namespace foldgrad {

constexpr int kPaddingPosition = 1;

template <class T>
struct PositionsForward {
  T* y;                        // [batch, length, columns]
  const T *x, *table;          // [batch, length, columns], [.., columns]
  const std::int64_t* places;  // [batch, length]; null for learned positions
  std::int64_t batch, length, columns;
  bool zero_padding;

  // Returns the position of row r, which is step t of its sample.
  FOLDGRAD_HD std::int64_t position(std::int64_t r, std::int64_t t) const {
    if (!places) return t;                                                       // [POS-4]
    return places[r] < 0 ? kPaddingPosition : kPaddingPosition + 1 + places[r];  // [POS-2]
  }
  FOLDGRAD_HD compute_t<T> sum(T x_rc, T table_pc, std::int64_t position) const {
    if (zero_padding && position == kPaddingPosition) return 0;  // [POS-6]
    return compute_t<T>(x_rc) + compute_t<T>(table_pc);          // [POS-3, POS-4]
  }
};

// The backward pass with zero_padding (engine/cpu/elementwise.h).
template <class T>
struct PositionsBackward {
  static constexpr const char* kName = "positions backward";
  GradOut<T> dx;               // [rows, columns]
  const T* dy;                 // [rows, columns]
  const std::int64_t* places;  // [rows]
  std::int64_t rows, columns;
  bool padding = false;  // true if the current row is padding

  FOLDGRAD_HD void start(std::int64_t, std::int64_t r) { padding = places[r] < 0; }
  FOLDGRAD_HD const GradOut<T>& target() const { return dx; }
  FOLDGRAD_HD compute_t<T> value(std::int64_t i, std::int64_t) const {
    return padding ? compute_t<T>(0) : compute_t<T>(dy[i]);  // [POS-6]
  }
  FOLDGRAD_OPERANDS(visit.result(dx), visit.element(dy));
};

FOLDGRAD_DECLARE(positions, PositionsForward);

}  // namespace foldgrad
