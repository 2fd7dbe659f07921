#pragma once
#include "engine/kernels.h"
#include "ops/channel_norm/channel_sums.h"

namespace foldgrad {

constexpr std::int64_t kCountColumns = 32;

template <class T>
struct ChannelMomentsPass {
  using Value = compute_t<T>;

  const T* x;
  const std::uint8_t* mask;  // [rows], 1 = real; null: all are
  std::int64_t rows, columns;
  bool with_mean;
  double* partials;               // [blocks, 2, columns], see squares() and sum()
  double* counts;                 // [blocks]: real rows; on CUDA for each 32 columns, see counts_of()
  double *mean, *square, *count;  // see ChannelMoments

  FOLDGRAD_HD bool real(std::int64_t r) const { return !mask || mask[r]; }
  // Of a block: the sum of (x - block's mean)^2, or without a mean that of x^2; and the sum of x, if there is a mean.
  FOLDGRAD_HD double* squares(std::int64_t block) const { return partials + 2 * block * columns; }
  FOLDGRAD_HD double* sum(std::int64_t block) const { return squares(block) + columns; }

  // Blocks of a kernel that have other columns may not have written theirs yet.
  FOLDGRAD_HD double* counts_of(std::int64_t c) const { return counts + c / kCountColumns * channel_blocks(rows); }

  struct RealRows {
    std::int64_t count, first;  // if there is none, `first` is the block's first row
  };
  FOLDGRAD_HD RealRows real_rows(ChannelBlock block) const {
    RealRows found{0, block.begin};
    for (std::int64_t r = block.end - 1; r >= block.begin; --r) {
      if (!real(r)) continue;
      found.first = r;
      ++found.count;
    }
    return found;
  }
  // The terms of one element: of x - shift the square and, if K is 2, the value. The block's first real row is the
  // shift, so that no digits of channels far from zero are lost; without a mean it is 0.
  template <int K>
  FOLDGRAD_HD void add(std::int64_t r, std::int64_t c, Value shift, Value (&sums)[K]) const {
    const Value d = Value(x[r * columns + c]) - shift;
    sums[0] += d * d;
    if constexpr (K == 2) sums[1] += d;
  }
  // Of n rows, makes of the sums of d^2 and d = x - shift those of (x - mean)^2 and x.
  FOLDGRAD_HD static void take_off_shift(double n, double shift, double& squares, double& sum) {
    if (n == 0) return;
    squares -= sum * sum / n;
    sum += n * shift;
  }
  // A block's share of the sum of (x - mean)^2, by Chan, Golub and LeVeque.
  FOLDGRAD_HD double squares_around(std::int64_t block, std::int64_t c, double mean_of_all) const {
    if (!with_mean || counts[block] == 0) return squares(block)[c];
    const double d = sum(block)[c] / counts[block] - mean_of_all;
    return squares(block)[c] + counts[block] * d * d;
  }
};

FOLDGRAD_DECLARE(channel_moments, ChannelMomentsPass);

}  // namespace foldgrad
