// Linear layers for inference. Weights are packed once, not for every product, into the layout that suits the
// processor. Bias and activation are applied while the result is still in registers.
//
//   y = f(x W^T + b)          or, with add > 0,          y = add * y + x W^T + b
//
// oneDNN computes y for f32 and bf16. For f64, or without oneDNN, a second pass computes y from gemm()'s product.
#pragma once
#include <compare>
#include <functional>
#include <optional>

#include "engine/tensor.h"
#include "ops/activation/activation_math.h"

namespace foldgrad {

struct PackedLinearOptions {
  // `in` is the dtype of x and of the packed weights. `out`, the dtype of y, equals `in`, or is f32 if `in` is bf16.
  DType in, out;
  std::optional<Activation> activation = {};  // f; cannot be combined with add
  double add = 0;

  auto operator<=>(const PackedLinearOptions&) const = default;
};

// One layer. x [rows, k] and y [rows, n] are dense and do not overlap. Several threads may call a layer at once.
using PackedLinear = std::function<void(std::int64_t rows, const void* x, void* y)>;

// Makes a layer from copies of weight [n, k] and bias ([n] or undefined), on the CPU, of any floating-point dtype.
PackedLinear packed_linear(const Tensor& weight, const Tensor& bias, const PackedLinearOptions& options);

// Makes a layer that oneDNN computes. Returns null if oneDNN does not support it.
PackedLinear onednn_packed_linear(const Tensor& weight, const Tensor& bias, const PackedLinearOptions& options);
// Makes a layer that gemm() computes, for every dtype.
PackedLinear plain_packed_linear(const Tensor& weight, const Tensor& bias, const PackedLinearOptions& options);

}  // namespace foldgrad
