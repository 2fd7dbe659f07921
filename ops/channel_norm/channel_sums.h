// Sums over the rows of a matrix, by column, from which channel_norm and power_norm take their statistics. Included by
// kernels.
//
// They are formed in f64 from partial sums of 16 rows in the element's arithmetic, block by block. The blocks do not
// depend on how many rows there are: rows of zeros at the end change no bit.
//
// channel_sums_cpu.h and channel_sums_cuda.h run over the rows for a struct with these members:
//
//   static constexpr int kSums;
//   void add(std::int64_t r, std::int64_t c, Value (&sums)[kSums]) const;  // the terms of one element
//   std::int64_t rows, columns;
//   double* partials;     // [blocks, kSums, columns]
//   double* sums[kSums];  // the results, each [columns]
#pragma once
#include <cstdint>

#include "engine/host_device.h"

namespace foldgrad {

constexpr std::int64_t kChannelBlockRows = 64, kChannelChunkRows = 16;

FOLDGRAD_HD inline std::int64_t channel_blocks(std::int64_t rows) {
  return (rows + kChannelBlockRows - 1) / kChannelBlockRows;
}

struct ChannelBlock {
  std::int64_t begin, end;  // rows
};
FOLDGRAD_HD inline ChannelBlock channel_block(std::int64_t block, std::int64_t rows) {
  const std::int64_t begin = block * kChannelBlockRows, end = begin + kChannelBlockRows;
  return {begin, end < rows ? end : rows};
}

}  // namespace foldgrad
