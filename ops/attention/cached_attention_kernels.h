#pragma once
#include "engine/kernels.h"

namespace foldgrad {

template <class T>
struct CachedAttention {
  T* y;        // [queries, heads * width]
  const T* q;  // [queries, q_row]; a row begins with the query
  // `blocks` has the address of each block, `places` has block << 32 | row for each place, and `begins` has the index
  // of each query's first place.
  const std::int64_t *blocks, *places, *begins;
  std::int64_t queries, heads, width;
  std::int64_t q_row, cache_row;  // strides: elements from one row to the next
  double scale;

  FOLDGRAD_HD std::int64_t columns() const { return heads * width; }
  // Returns the key of a place. The place's value follows the key, at the end of the row.
  FOLDGRAD_HD const T* key(std::int64_t place) const {
    const std::int64_t row = places[place] & 0xffffffff;
    return reinterpret_cast<const T*>(blocks[places[place] >> 32]) + (row + 1) * cache_row - 2 * columns();
  }
};

FOLDGRAD_DECLARE(cached_attention, CachedAttention);

}  // namespace foldgrad
