#pragma once
#include "engine/dtype.h"
#include "engine/kernels.h"

namespace foldgrad {

template <class T>
struct CachedAttention {
  T* y;                                          // [queries, heads * width]
  const T* q;                                    // [queries, heads * width]
  const std::int64_t *blocks, *places, *begins;  // addresses of the blocks; block << 32 | row; of each query in places
  std::int64_t queries, heads, width;
  double scale;

  FOLDGRAD_HD std::int64_t columns() const { return heads * width; }
  FOLDGRAD_HD const T* key(std::int64_t place) const {
    const std::int64_t row = places[place] & 0xffffffff;
    return reinterpret_cast<const T*>(blocks[places[place] >> 32]) + row * 2 * columns();
  }
};

FOLDGRAD_DECLARE(cached_attention, CachedAttention);

}  // namespace foldgrad
