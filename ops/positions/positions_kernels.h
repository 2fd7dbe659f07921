#pragma once
#include "engine/kernels.h"

namespace foldgrad {

constexpr int kPaddingPosition = 1;

// Elements with a row of the table for each row (engine/cpu/elementwise.h).
template <class T>
struct PositionsForward {
  static constexpr const char* kName = "positions forward";
  T* y;                        // [rows, columns]
  const T *x, *table;          // [rows, columns], [.., columns]
  const std::int64_t* places;  // [rows]; null: learned positions
  std::int64_t rows, columns;
  unsigned length;  // rows of a sample with learned positions
  bool zero_padding;
  // Of the row at hand: its row of the table, and whether it gets zeros.
  const T* at = nullptr;
  bool zeros = false;

  FOLDGRAD_HD void start(std::int64_t, std::int64_t r, std::int64_t c) {
    const std::int64_t position = places ? position_of(places[r]) : unsigned(r) % length;  // [POS-4]
    at = table + position * columns + c;
    zeros = zero_padding && position == kPaddingPosition;
  }
  FOLDGRAD_HD static std::int64_t position_of(std::int64_t place) {
    return place < 0 ? kPaddingPosition : kPaddingPosition + 1 + place;  // [POS-2]
  }
  FOLDGRAD_HD T* target() const { return y; }
  FOLDGRAD_HD compute_t<T> value(std::int64_t i, std::int64_t c) const {
    const compute_t<T> sum = compute_t<T>(x[i]) + compute_t<T>(at[c]);  // [POS-3, POS-4]
    return zeros ? compute_t<T>(0) : sum;                               // [POS-6]
  }
  FOLDGRAD_OPERANDS(visit.result(y), visit.element(x));
};

// With zero_padding (engine/cpu/elementwise.h).
template <class T>
struct PositionsBackward {
  static constexpr const char* kName = "positions backward";
  GradOut<T> dx;               // [rows, columns]
  const T* dy;                 // [rows, columns]
  const std::int64_t* places;  // [rows]
  std::int64_t rows, columns;
  bool padding = false;  // of the row at hand

  FOLDGRAD_HD void start(std::int64_t, std::int64_t r, std::int64_t) { padding = places[r] < 0; }
  FOLDGRAD_HD const GradOut<T>& target() const { return dx; }
  FOLDGRAD_HD compute_t<T> value(std::int64_t i, std::int64_t) const {
    return padding ? compute_t<T>(0) : compute_t<T>(dy[i]);  // [POS-6]
  }
  FOLDGRAD_OPERANDS(visit.result(dx), visit.element(dy));
};

}  // namespace foldgrad
