// Sums over the rows of a matrix, by column. They are formed in f64 from partial sums of 16 rows in the element's
// arithmetic, block by block. The blocks do not depend on how many rows there are: rows of zeros at the end change no
// bit.
//
// channel_sums_cpu.h and channel_sums_cuda.h run over the rows for a struct with these members:
//
//   static constexpr int kSums;
//   void add(std::int64_t r, std::int64_t c, Value (&sums)[kSums]) const;  // the terms of one element
//   std::int64_t rows, columns;
//   double* partials;     // [blocks, kSums, columns]
//   double* sums[kSums];  // the results, each [columns]
#pragma once
#include "engine/kernels.h"

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

template <class T>
struct ChannelGradientPass {
  using Value = compute_t<T>;
  static constexpr int kSums = 2;

  const T *dy, *x;
  const Value* mean;  // [columns]
  std::int64_t rows, columns;
  double* partials;     // [blocks, kSums, columns]
  double* sums[kSums];  // of dy; of dy (x - mean)

  FOLDGRAD_HD void add(std::int64_t r, std::int64_t c, Value (&own)[kSums]) const {
    const std::int64_t i = r * columns + c;
    own[0] += Value(dy[i]);
    own[1] += Value(dy[i]) * (Value(x[i]) - mean[c]);
  }

  FOLDGRAD_OPERANDS(visit.element(dy), visit.element(x), visit.column(mean));
};

// The moments of each block of rows are taken around the block's first row, so that channels far from zero lose no
// digits, and merged by the formula of Chan, Golub and LeVeque.
template <class T>
struct ChannelMomentsPass {
  using Value = compute_t<T>;

  const T* x;
  std::int64_t rows, columns;
  bool with_mean;
  double* partials;       // [blocks, 2, columns], see squares() and sum()
  double *mean, *square;  // see ChannelMoments

  // The results of a block: the sum of (x - the block's mean)^2, or of x^2 without a mean; with a mean, the sum of x.
  FOLDGRAD_HD double* squares(std::int64_t block) const { return partials + 2 * block * columns; }
  FOLDGRAD_HD double* sum(std::int64_t block) const { return squares(block) + columns; }

  // Adds the terms of one element: the square of x - shift and, if K is 2, the difference itself.
  template <int K>
  FOLDGRAD_HD static void add(Value x, Value shift, Value (&sums)[K]) {
    const Value d = x - shift;
    sums[0] += d * d;
    if constexpr (K == 2) sums[1] += d;
  }
  // Turns the sums of d^2 and d = x - shift over n rows into those of (x - mean)^2 and x.
  FOLDGRAD_HD static void take_off_shift(double n, double shift, double& squares, double& sum) {
    squares -= sum * sum / n;
    sum += n * shift;
  }
  // Returns a block's share of the sum of (x - mean)^2.
  FOLDGRAD_HD double squares_around(std::int64_t block, std::int64_t c, double mean_of_all) const {
    if (!with_mean) return squares(block)[c];
    const ChannelBlock of = channel_block(block, rows);
    const double n = double(of.end - of.begin), d = sum(block)[c] / n - mean_of_all;
    return squares(block)[c] + n * d * d;
  }
};

FOLDGRAD_DECLARE(channel_sums, ChannelGradientPass);
FOLDGRAD_DECLARE(channel_sums, ChannelMomentsPass);

}  // namespace foldgrad
