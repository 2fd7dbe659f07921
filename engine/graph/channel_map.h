// Affine maps per channel. At inference, a normalizer is an affine map; folding moves the map through a recorded
// forward pass.
#pragma once
#include <algorithm>

#include "engine/tensor.h"

namespace foldgrad {

// y = A x + B per channel; with `centered`, y = A (x - mean of x over its channels) + B.
struct AffineMap {
  std::vector<double> A, B;
  bool centered = false;

  // Returns the map with A and B [C], which may have any dtype and be on any device.
  static AffineMap of(const Tensor& A, const Tensor& B) {
    const auto host = [](const Tensor& t) { return t.to(Device::cpu).to(DType::f64).values<double>(); };
    return {host(A), host(B)};
  }
  static AffineMap identity(std::int64_t channels) {
    return {std::vector<double>(std::size_t(channels), 1), std::vector<double>(std::size_t(channels), 0)};
  }

  std::int64_t channels() const { return std::int64_t(A.size()); }
  bool adds() const {  // true if some entry of B is not 0
    return std::any_of(B.begin(), B.end(), [](double b) { return b != 0; });
  }
  bool scales() const {  // true if some entry of A is not 1, or if the map centres
    return centered || std::any_of(A.begin(), A.end(), [](double a) { return a != 1; });
  }
  bool operator==(const AffineMap&) const = default;
};

// The position of the channels in a value: index i of axis `axis` belongs to channel (i - offset) / repeat, or to no
// channel if that number is out of range.
struct ChannelPlace {
  int axis = 0;
  std::int64_t offset = 0, repeat = 1;
  bool operator==(const ChannelPlace&) const = default;
};

// A map that is pending at a value: the graph must compute the same results as if the map were applied there.
struct ChannelMap {
  ChannelPlace place;
  AffineMap map;
  bool operator==(const ChannelMap&) const = default;

  // Returns true if the channels are exactly the last axis of `shape`.
  bool whole(const Shape& shape) const {
    return place == ChannelPlace{shape.rank() - 1} && map.channels() == shape[-1];
  }
};

}  // namespace foldgrad
