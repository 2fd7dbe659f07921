// Constants for the windows in a map of tokens; swin.h has the equations.
#pragma once
#include "ops/reindex/reindex.h"

namespace foldgrad {

// Windows of `size` x `size` tokens in a map of `side` x `side` tokens, rolled by `shift`.
struct MapWindows {
  std::int64_t count;   // number of windows per image
  std::int64_t tokens;  // number of tokens per window
  RowOrder order;       // orders the tokens of a map window by window, and row by row within each window [SWIN-2]
  Tensor table_rows;    // i64 [tokens^2]: row of the bias table for each pair of tokens [SWIN-3]
  Tensor mask;          // [count, heads, tokens^2]; undefined if windows are not shifted [SWIN-3]

  // `size` must divide `side`. The mask has `dtype`.
  MapWindows(std::int64_t side, std::int64_t size, std::int64_t shift, std::int64_t heads, DType dtype, Device device);
};

// Returns the order that puts the four tokens of each 2 x 2 square of a map next to each other [SWIN-4]. `side` must be
// even.
RowOrder neighbours(std::int64_t side, Device device);

}  // namespace foldgrad
