// Linear layers for inference. Weights are brought into the order that the processor wants once, not for every
// product, and what follows a product happens while its result is still in registers.
//
//   y = f(x W^T + b)          or, with add > 0,          y = add y + x W^T + b
//
// Computed by oneDNN for f32 and bf16; otherwise, and where that is absent, by gemm() and a pass over its result.
#pragma once
#include <compare>
#include <functional>
#include <optional>

#include "engine/tensor.h"
#include "ops/activation/activation_math.h"

namespace foldgrad {

struct PackedLinearOptions {
  DType in, out;                              // of x and the packed weights, and of y: equal, or bf16 and f32
  std::optional<Activation> activation = {};  // f; none with add
  double add = 0;

  auto operator<=>(const PackedLinearOptions&) const = default;
};

// One layer. x: [rows, k], y: [rows, n], dense and apart from each other. May be called by several threads at once.
using PackedLinear = std::function<void(std::int64_t rows, const void* x, void* y)>;

// Copies weight, [n, k], and bias, [n] or undefined, both on the CPU and of any floating dtype.
PackedLinear packed_linear(const Tensor& weight, const Tensor& bias, const PackedLinearOptions& options);

// Makes one of the two forms. Returns null where oneDNN does not do it.
PackedLinear onednn_packed_linear(const Tensor& weight, const Tensor& bias, const PackedLinearOptions& options);
// Makes the other one, for every dtype, with gemm().
PackedLinear plain_packed_linear(const Tensor& weight, const Tensor& bias, const PackedLinearOptions& options);

}  // namespace foldgrad
