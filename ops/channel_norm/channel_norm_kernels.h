// The passes of channel_norm over the matrix [rows, columns], and its steps between them (channel_norm_step.h).
#pragma once
#include "ops/channel_norm/channel_norm_step.h"

namespace foldgrad {

// Sums over rows are formed in f64 from partial sums of 16 rows in the element's arithmetic, block by block. The blocks
// do not depend on how many rows there are: rows of zeros at the end change no bit.
constexpr std::int64_t kChannelBlockRows = 64, kChannelChunkRows = 16;
inline std::int64_t channel_blocks(std::int64_t rows) { return (rows + kChannelBlockRows - 1) / kChannelBlockRows; }

template <class T>
struct ChannelMoments {
  const T* x;
  const std::uint8_t* mask;  // [rows], 1 = real; null: all are
  std::int64_t rows, columns;
  bool variance;
  double*
      partials;    // [blocks, 2, columns]: sum of x; sum of (x - block's mean)^2. Without a mean, the sum of x^2 alone.
  double* counts;  // [blocks]: real rows
  double* moments;  // [2, columns], see ChannelForwardStep
  double* count;    // []

  FOLDGRAD_HD bool real(std::int64_t r) const { return !mask || mask[r]; }
  FOLDGRAD_HD const double* sum(std::int64_t block) const { return partials + 2 * block * columns; }
  FOLDGRAD_HD const double* squares(std::int64_t block) const { return partials + (2 * block + 1) * columns; }
  // A block's share of the sum of (x - mean)^2, by Chan, Golub and LeVeque.
  FOLDGRAD_HD double squares_around(std::int64_t block, std::int64_t c, double mean) const {
    if (!variance || counts[block] == 0) return squares(block)[c];
    const double d = sum(block)[c] / counts[block] - mean;
    return squares(block)[c] + counts[block] * d * d;
  }
};

template <class T>
struct ChannelApply {
  T* y;
  const T *x, *beta;
  const compute_t<T>*mean, *gain;  // [columns]
  std::int64_t rows, columns;

  FOLDGRAD_HD compute_t<T> value(std::int64_t i, std::int64_t c) const {
    using Value = compute_t<T>;
    return gain[c] * (Value(x[i]) - mean[c]) + Value(beta[c]);  // [UN-1]
  }
};

template <class T>
struct ChannelSums {
  const T *dy, *x;
  const compute_t<T>* mean;  // [columns]
  std::int64_t rows, columns;
  bool power;        // a third sum is wanted
  double* partials;  // [blocks, 3, columns]
  double* sums;      // [3, columns], see ChannelBackwardStep
};

template <class T>
struct ChannelGradient {
  GradOut<T> dx;
  const T *dy, *x;                         // dy null: zero
  const compute_t<T>*mean, *coefficients;  // [columns], [3, columns], see ChannelBackwardStep
  const std::uint8_t* mask;                // where corrections apply; null: everywhere
  std::int64_t rows, columns;
};

template <class T>
void channel_norm_cpu(const ChannelMoments<T>& p);
template <class T>
void channel_norm_cpu(const ChannelForwardStep<T>& p);
template <class T>
void channel_norm_cpu(const ChannelApply<T>& p);
template <class T>
void channel_norm_cpu(const ChannelSums<T>& p);
template <class T>
void channel_norm_cpu(const ChannelBackwardStep<T>& p);
template <class T>
void channel_norm_cpu(const ChannelGradient<T>& p);
template <class T>
void channel_norm_cuda(const ChannelMoments<T>& p);
template <class T>
void channel_norm_cuda(const ChannelForwardStep<T>& p);
template <class T>
void channel_norm_cuda(const ChannelApply<T>& p);
template <class T>
void channel_norm_cuda(const ChannelSums<T>& p);
template <class T>
void channel_norm_cuda(const ChannelBackwardStep<T>& p);
template <class T>
void channel_norm_cuda(const ChannelGradient<T>& p);

}  // namespace foldgrad
