#pragma once
#include "engine/grad_out.h"

namespace foldgrad {

constexpr int kPaddingPosition = 1;

template <class T>
struct PositionsForward {
  T* y;                      // [batch, length, columns]
  const T *x, *table;        // [batch, length, columns], [.., columns]
  const std::uint8_t* mask;  // [batch, length]; null: the position of token t is t
  std::int64_t batch, length, columns;
};

// dtable, as sums over the batch (engine/cpu/column_sums.h).
template <class T>
struct PositionsBackward {
  using Value = compute_t<T>;
  static constexpr int kSums = 1;

  GradOut<T> dtable;           // [length, columns per position]
  const T* dy;                 // [batch, length, columns per position]
  std::int64_t rows, columns;  // batch, length * columns per position

  FOLDGRAD_HD void add(std::int64_t r, std::int64_t c, Value (&sums)[kSums]) const {
    sums[0] += Value(dy[r * columns + c]);  // [POS-5]
  }
  FOLDGRAD_HD void put(std::int64_t c, const Value (&sums)[kSums]) const { dtable.put(c, sums[0]); }
};

template <class T>
void positions_cpu(const PositionsForward<T>& p);
template <class T>
void positions_cpu(const PositionsBackward<T>& p);
template <class T>
void positions_cuda(const PositionsForward<T>& p);
template <class T>
void positions_cuda(const PositionsBackward<T>& p);

}  // namespace foldgrad
