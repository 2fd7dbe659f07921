// Statistics per channel: sums over the rows of a matrix, one per column. channel_norm, power_norm, rbn_penalty and
// watch_channels start from them.
//
// x, dy: [..., C] with C >= 1, seen as rows of C channels. Results are f64, on x's device, and not recorded.
#pragma once
#include <optional>

#include "engine/named_tensors.h"
#include "engine/parallel/communicator.h"

namespace foldgrad {

// Moments over n rows: the mean of x and the mean of (x - mean)^2 or, without a mean, 0 and the mean of x^2.
struct ChannelMoments {
  Tensor mean, square;     // [C]
  std::int64_t count = 0;  // n; if n is 0, the moments are NaN, except a mean that is 0 by definition
};

// The settings of one forward pass, over x [..., C], of an operation with running statistics.
struct ChannelPass {
  bool training = false;                     // if false, the running estimates are constants and no state is written
  std::optional<std::int64_t> counted = {};  // n, the number of leading positions that enter statistics; default: all
  // In training, both passes compute statistics over the positions of all ranks. The ranks' states stay equal, and
  // their parameter gradients add up to the true gradients. The communicator must outlive the recording, and is null if
  // x contains all positions.
  Communicator* communicator = nullptr;
};

// Returns the moments of x; with a communicator, over the rows of all ranks.
ChannelMoments channel_moments(const Tensor& x, bool with_mean, Communicator* communicator = nullptr);

// Returns N for x seen as [N, C].
inline std::int64_t rows_of(const Tensor& x) { return x.shape()[-1] ? x.size() / x.shape()[-1] : 0; }

// Returns the number of leading rows of x that enter statistics: `counted`, or all rows. Throws std::invalid_argument,
// with a message that begins with `op`, if x has fewer rows, or if a communicator is given and not all rows enter.
std::int64_t counted_rows(const char* op, const Tensor& x, std::optional<std::int64_t> counted,
                          Communicator* communicator = nullptr);
// Returns a view [n, C] of the first n rows of x.
Tensor first_rows(const Tensor& x, std::int64_t n);

// Sums over all rows; with a communicator, over the rows of all ranks.
struct ChannelGradientSums {
  Tensor dy, dy_x;  // [C]: the sums of dy and of dy * (x - mean)
};

// Computes these sums. dy has x's shape and dtype; mean is [C], in f64 if x is f64, otherwise in f32.
ChannelGradientSums channel_gradient_sums(const Tensor& dy, const Tensor& x, const Tensor& mean,
                                          Communicator* communicator = nullptr);

// These return the dtype of the state that normalizers of x keep, and an uninitialised tensor [C] of this dtype.
inline DType statistics_dtype(const Tensor& x) { return x.dtype() == DType::f64 ? DType::f64 : DType::f32; }
inline Tensor per_channel(const Tensor& x) { return Tensor::empty({x.shape()[-1]}, statistics_dtype(x), x.device()); }
// Throws std::invalid_argument unless `state` has the tensors of `wanted`, with their shapes and dtypes, on x's device.
void check_state(const char* op, const NamedTensors& state, const NamedTensors& wanted, const Tensor& x);

}  // namespace foldgrad
