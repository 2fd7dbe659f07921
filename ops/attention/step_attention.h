// Attention of single queries to keys and values that lie anywhere, for decoding step by step.
#pragma once
#include <algorithm>
#include <vector>

#include "engine/dtype.h"

namespace foldgrad {

template <class T>
struct StepAttention {
  T* y;        // [rows, heads * width]
  const T* q;  // [rows, .], with q_row elements from one row to the next
  std::int64_t q_row, heads, width;
  std::int64_t value_offset;  // elements from a key to its value
};

// At most so many rows are computed together. What they share of their keys is then read once for all of them.
constexpr std::int64_t kStepRows = 5;

// The scratch memory of one thread.
template <class T>
struct StepAttentionRoom {
  std::vector<const T*> keys[kStepRows];  // of each row at hand, equally many; filled by the caller
  std::vector<compute_t<T>> queries, weights, sums;
};

// Rows [first, first + count) of y; zero where there are no keys. Every row has the same bits in any company.
template <class T>
void attend(const StepAttention<T>& p, std::int64_t first, std::int64_t count, StepAttentionRoom<T>& room);

// Rows [groups[g], groups[g + 1]) for every g, in company where there are not more than kStepRows. choose(r, keys)
// names what row r attends to. `work`: keys of all rows, about.
template <class T, class Choose>
void attend_rows(const StepAttention<T>& p, const std::vector<std::int64_t>& groups, std::int64_t work,
                 const Choose& choose) {
#pragma omp parallel if (work * p.heads * p.width >= 32768)
  {
    StepAttentionRoom<T> room;
    const std::int64_t last = std::int64_t(groups.size()) - 1;
#pragma omp for schedule(static)
    for (std::int64_t g = 0; g < last; ++g)
      for (std::int64_t first = groups[g]; first < groups[g + 1]; first += kStepRows) {
        const std::int64_t count = std::min(kStepRows, groups[g + 1] - first);
        for (std::int64_t r = 0; r < count; ++r) {
          room.keys[r].clear();
          choose(first + r, room.keys[r]);
        }
        attend(p, first, count, room);
      }
  }
}

}  // namespace foldgrad
