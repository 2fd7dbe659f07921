#pragma once
#include "engine/kernels.h"

namespace foldgrad {

template <class T>
struct CachedAttention {
  T* y;                                          // [queries, heads * width]
  const T* q;                                    // [queries, q_row], each row beginning with a query
  const std::int64_t *blocks, *places, *begins;  // addresses of the blocks; block << 32 | row; of each query in places
  std::int64_t queries, heads, width;
  std::int64_t q_row, cache_row;  // elements from one row to the next
  double scale;

  FOLDGRAD_HD std::int64_t columns() const { return heads * width; }
  // Returns a key; its value follows it, at the end of the row.
  FOLDGRAD_HD const T* key(std::int64_t place) const {
    const std::int64_t row = places[place] & 0xffffffff;
    return reinterpret_cast<const T*>(blocks[places[place] >> 32]) + (row + 1) * cache_row - 2 * columns();
  }
};

FOLDGRAD_DECLARE(cached_attention, CachedAttention);

}  // namespace foldgrad
