// Statistics per channel: sums over the rows of a matrix, by column. channel_norm, power_norm, rbn_penalty and
// watch_channels begin with them.
//
// x, dy: [..., C] with C >= 1, seen as rows of C channels; results are f64, on x's device, and not recorded.
#pragma once
#include <optional>

#include "engine/named_tensors.h"
#include "engine/parallel/communicator.h"

namespace foldgrad {

// Over n rows, `mean` and `square` are mean x and mean (x - mean)^2. Without a mean, `mean` is 0 and `square` is mean
// x^2.
struct ChannelMoments {
  Tensor mean, square;     // [C]
  std::int64_t count = 0;  // n; if that is 0 the others are NaN, but for a mean that is 0 anyway
};

// Returns the moments of x, or with a communicator those of the rows of all ranks.
ChannelMoments channel_moments(const Tensor& x, bool with_mean, Communicator* communicator = nullptr);

// Returns N of x seen as [N, C].
inline std::int64_t rows_of(const Tensor& x) { return x.shape()[-1] ? x.size() / x.shape()[-1] : 0; }

// Returns how many of the first rows of x count in statistics: `counted`, or all if it is not given. Throws
// std::invalid_argument, which begins with `op`, unless x has as many, and with a communicator for others than all.
std::int64_t counted_rows(const char* op, const Tensor& x, std::optional<std::int64_t> counted,
                          Communicator* communicator = nullptr);
// Returns the first n rows of x, [n, C], in its storage.
Tensor first_rows(const Tensor& x, std::int64_t n);

// Sums over all rows, or with a communicator over those of all ranks.
struct ChannelGradientSums {
  Tensor dy, dy_x;  // [C]: sum dy and sum dy (x - mean)
};

// Returns these sums. dy: of x's shape and dtype; mean: [C], f64 for f64 and f32 otherwise.
ChannelGradientSums channel_gradient_sums(const Tensor& dy, const Tensor& x, const Tensor& mean,
                                          Communicator* communicator = nullptr);

// Return the dtype of the state that normalizers keep beside x, and a tensor of its shape.
inline DType statistics_dtype(const Tensor& x) { return x.dtype() == DType::f64 ? DType::f64 : DType::f32; }
inline Tensor per_channel(const Tensor& x) { return Tensor::empty({x.shape()[-1]}, statistics_dtype(x), x.device()); }
// Throws std::invalid_argument unless `state` has the tensors of `wanted`, of the same shapes and dtypes, on x's
// device.
void check_state(const char* op, const NamedTensors& state, const NamedTensors& wanted, const Tensor& x);

}  // namespace foldgrad
