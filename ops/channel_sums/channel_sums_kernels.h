// Sums over the rows of a matrix, one per column. First, the rows of each block of 64 are summed: each chunk of 16 rows
// in the arithmetic of the elements, then the chunks in f64. Then the sums of the blocks are added in f64. The division
// into blocks does not depend on the number of rows, so rows of zeros at the end do not change the result.
// FOLDGRAD_RUN(device, channel_sums, p) computes these sums for a struct with these members:
//
//   using Value;  static constexpr int kSums;
//   std::int64_t rows, columns;
//   double* partials;                        // [blocks, kSums, columns]: the sums of each block
//   void start(block)                        // called on a copy of the struct, before the rows of a block are added
//   void add(r, c, S (&sums)[kSums])         // adds the terms of one element; S is Value or double
//   void finish_block(block, c, double (&sums)[kSums])  // changes a block's sums before they are stored
//   double share(k, block, c)                // a block's share of total k, from its partials and earlier totals
//   void put(k, c, double sum)               // stores total k
#pragma once
#include <cmath>

#include "engine/kernels.h"

namespace foldgrad {

template <class P>
void channel_sums_cpu(const P& p);
template <class P>
void channel_sums_cuda(const P& p);

constexpr std::int64_t kChannelBlockRows = 64, kChannelChunkRows = 16;

FOLDGRAD_HD inline std::int64_t channel_blocks(std::int64_t rows) {
  return (rows + kChannelBlockRows - 1) / kChannelBlockRows;
}

struct ChannelBlock {
  std::int64_t begin, end;  // range of rows
};
FOLDGRAD_HD inline ChannelBlock channel_block(std::int64_t block, std::int64_t rows) {
  const std::int64_t begin = block * kChannelBlockRows, end = begin + kChannelBlockRows;
  return {begin, end < rows ? end : rows};
}

// Returns false for NaN and infinity.
FOLDGRAD_HD inline bool finite_sum(double sum) { return std::fabs(sum) <= 1.7976931348623157e308; }

// Recomputes the sums of a block in f64, after squares have overflowed in the arithmetic of the elements.
template <class P>
FOLDGRAD_HD void sum_again(P p, std::int64_t block, std::int64_t c, double (&sums)[P::kSums]) {
  const ChannelBlock rows = channel_block(block, p.rows);
  p.start(block);
  for (double& sum : sums) sum = 0;
  for (std::int64_t r = rows.begin; r < rows.end; ++r) p.add(r, c, sums);
  p.finish_block(block, c, sums);
}

template <class T>
struct ChannelGradientPass {
  using Value = compute_t<T>;
  static constexpr int kSums = 2;

  const T *dy, *x;
  const Value* mean;  // [columns]
  std::int64_t rows, columns;
  double* partials;
  double *sum_dy, *sum_dy_x;  // for ChannelGradientSums

  FOLDGRAD_HD void start(std::int64_t) {}
  template <class S>
  FOLDGRAD_HD void add(std::int64_t r, std::int64_t c, S (&sums)[kSums]) const {
    const std::int64_t i = r * columns + c;
    sums[0] += S(dy[i]);
    sums[1] += S(dy[i]) * (S(x[i]) - S(mean[c]));
  }
  FOLDGRAD_HD void finish_block(std::int64_t, std::int64_t, double (&)[kSums]) const {}
  FOLDGRAD_HD double share(int k, std::int64_t block, std::int64_t c) const {
    return partials[(kSums * block + k) * columns + c];
  }
  FOLDGRAD_HD void put(int k, std::int64_t c, double sum) const { (k == 0 ? sum_dy : sum_dy_x)[c] = sum; }
  FOLDGRAD_OPERANDS(visit.element(dy), visit.element(x), visit.column(mean));
};

// Computes the moments of each block around the block's first row, so that channels far from zero lose no digits, and
// merges them by the formula of Chan, Golub and LeVeque.
template <class T>
struct ChannelVariancePass {
  using Value = compute_t<T>;
  static constexpr int kSums = 2;

  const T *x, *shift = nullptr;  // shift is [columns], the first row of the current block
  std::int64_t rows, columns;
  double* partials;       // partial sums of x, and of (x - the block's mean)^2
  double *mean, *square;  // for ChannelMoments

  FOLDGRAD_HD void start(std::int64_t block) { shift = x + channel_block(block, rows).begin * columns; }
  template <class S>
  FOLDGRAD_HD void add(std::int64_t r, std::int64_t c, S (&sums)[kSums]) const {
    const S d = S(x[r * columns + c]) - S(shift[c]);
    sums[0] += d;
    sums[1] += d * d;
  }
  FOLDGRAD_HD void finish_block(std::int64_t block, std::int64_t c, double (&sums)[kSums]) const {
    const ChannelBlock of = channel_block(block, rows);
    const double n = double(of.end - of.begin), first = Value(x[of.begin * columns + c]);
    sums[1] -= sums[0] * sums[0] / n;
    sums[0] += n * first;
  }
  FOLDGRAD_HD double share(int k, std::int64_t block, std::int64_t c) const {
    const double* own = partials + kSums * block * columns + c;
    if (k == 0) return own[0];
    const ChannelBlock of = channel_block(block, rows);
    const double n = double(of.end - of.begin), d = own[0] / n - mean[c];
    return own[columns] + n * d * d;
  }
  FOLDGRAD_HD void put(int k, std::int64_t c, double sum) const {
    (k == 0 ? mean : square)[c] = sum / double(rows);  // [CN-1]
  }
  FOLDGRAD_OPERANDS(visit.element(x), visit.column(shift));
};

template <class T>
struct ChannelSquaresPass {
  using Value = compute_t<T>;
  static constexpr int kSums = 1;

  const T* x;
  std::int64_t rows, columns;
  double* partials;
  double *mean, *square;  // for ChannelMoments

  FOLDGRAD_HD void start(std::int64_t) {}
  template <class S>
  FOLDGRAD_HD void add(std::int64_t r, std::int64_t c, S (&sums)[kSums]) const {
    const S x_i = S(x[r * columns + c]);
    sums[0] += x_i * x_i;
  }
  FOLDGRAD_HD void finish_block(std::int64_t, std::int64_t, double (&)[kSums]) const {}
  FOLDGRAD_HD double share(int, std::int64_t block, std::int64_t c) const { return partials[block * columns + c]; }
  FOLDGRAD_HD void put(int, std::int64_t c, double sum) const {
    mean[c] = 0;
    square[c] = sum / double(rows);  // [CN-1]
  }
  FOLDGRAD_OPERANDS(visit.element(x));
};

}  // namespace foldgrad
