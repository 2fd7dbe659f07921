// Linear layers for inference. Weights are packed once into the layout that the processor wants, not for every product;
// bias and activation are applied while the result is still in registers.
//
//   y = f(x W^T + b)          or, with add > 0,          y = add y + x W^T + b
//
// oneDNN computes it for f32 and bf16. For f64, or without oneDNN, gemm() computes it, followed by a pass over the
// result.
#pragma once
#include <compare>
#include <functional>
#include <optional>

#include "engine/tensor.h"
#include "ops/activation/activation_math.h"

namespace foldgrad {

struct PackedLinearOptions {
  DType in, out;                              // types of x and the packed weights, and of y; equal, or bf16 and f32
  std::optional<Activation> activation = {};  // f; cannot be combined with add
  double add = 0;

  auto operator<=>(const PackedLinearOptions&) const = default;
};

// One layer. x: [rows, k], y: [rows, n], both dense and not overlapping. Several threads may call it at once.
using PackedLinear = std::function<void(std::int64_t rows, const void* x, void* y)>;

// Makes a layer from a copy of weight, [n, k], and of bias, [n] or undefined; both are on the CPU, of any floating
// dtype.
PackedLinear packed_linear(const Tensor& weight, const Tensor& bias, const PackedLinearOptions& options);

// Makes a layer that oneDNN computes. Returns null if oneDNN does not support it.
PackedLinear onednn_packed_linear(const Tensor& weight, const Tensor& bias, const PackedLinearOptions& options);
// Makes a layer that gemm() computes, for every dtype.
PackedLinear plain_packed_linear(const Tensor& weight, const Tensor& bias, const PackedLinearOptions& options);

}  // namespace foldgrad
