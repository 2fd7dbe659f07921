// Attention of single queries to keys and values that lie anywhere, for decoding step by step.
#pragma once
#include <vector>

#include "engine/dtype.h"

namespace foldgrad {

template <class T>
struct StepAttention {
  T* y;        // [rows, heads * width]
  const T* q;  // [rows, .], with q_row elements from one row to the next
  std::int64_t q_row, rows, heads, width;
  std::int64_t value_offset;  // elements from a key to its value
};

// What one thread needs.
template <class T>
struct StepAttentionRoom {
  std::vector<const T*> keys;  // of the row at hand; filled by the caller
  std::vector<compute_t<T>> query, weights, sum;
};

// Row r of y; zero where there are no keys.
template <class T>
void attend(const StepAttention<T>& p, std::int64_t r, StepAttentionRoom<T>& room);

// Every row; choose(r, keys) names what it attends to. `work`: keys of all rows, about.
template <class T, class Choose>
void attend_rows(const StepAttention<T>& p, std::int64_t work, const Choose& choose) {
#pragma omp parallel if (work * p.heads * p.width >= 32768)
  {
    StepAttentionRoom<T> room;
#pragma omp for schedule(static)
    for (std::int64_t r = 0; r < p.rows; ++r) {
      room.keys.clear();
      choose(r, room.keys);
      attend(p, r, room);
    }
  }
}

}  // namespace foldgrad
