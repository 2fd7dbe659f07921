#pragma once
#include "engine/kernels.h"

namespace foldgrad {

constexpr int kPaddingPosition = 1;  // the position just before the first position of a sentence

template <class T>
struct PositionsForward {
  T* y;                        // [batch, length, columns]
  const T *x, *table;          // [batch, length, columns], [.., columns]
  const std::int64_t* places;  // [batch, length]; null for learned positions
  std::int64_t batch, length, columns;

  // Returns the position of row r, which is step t of its sample.
  FOLDGRAD_HD std::int64_t position(std::int64_t r, std::int64_t t) const {
    return places ? kPaddingPosition + 1 + places[r] : t;  // [POS-2] [POS-4]
  }
  FOLDGRAD_HD static compute_t<T> sum(T x_rc, T table_pc) {
    return compute_t<T>(x_rc) + compute_t<T>(table_pc);  // [POS-3, POS-4]
  }
};

FOLDGRAD_DECLARE(positions, PositionsForward);

}  // namespace foldgrad
