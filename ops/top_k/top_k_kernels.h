#pragma once
#include "engine/kernels.h"

namespace foldgrad {

template <class T>
struct TopKParams {
  T* values;                           // [rows, k]
  std::int64_t* indices;               // [rows, k]
  double* log_sum_exp;                 // [rows]
  T* wanted;                           // [rows, wanted_columns]
  const T* x;                          // [rows, columns]
  const std::int64_t* columns_wanted;  // [wanted_columns]
  std::int64_t rows, columns, k, wanted_columns;
};

// An entry of a row; index is -1 if there is none.
template <class T>
struct Entry {
  T value;
  std::int64_t index;

  // Returns true if this entry comes before `other`. A NaN never does. [TOP-1]
  FOLDGRAD_HD bool before(const Entry& other) const {
    if (index < 0 || other.index < 0) return index >= 0;
    return value > other.value || (value == other.value && index < other.index);
  }
};

FOLDGRAD_DECLARE(top_k, TopKParams);

}  // namespace foldgrad
