// Linear layers for inference. Weights are brought into the order that the processor wants once, not for every
// product, and what follows a product happens while its result is still in registers.
//
//   y = f(x W^T + b)          or, with add > 0,          y = add y + x W^T + b
//
// By oneDNN for f32 and bf16; otherwise, and where that is absent, by gemm() and a pass over its result.
#pragma once
#include <compare>
#include <memory>
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

class PackedLinear {
 public:
  // A library's form of one layer.
  class Backend {
   public:
    virtual ~Backend() = default;
    virtual void run(std::int64_t rows, const void* x, void* y) const = 0;
  };

  // weight: [n, k], bias: [n] or undefined, on the CPU, of any floating dtype. Both are copied.
  PackedLinear(const Tensor& weight, const Tensor& bias, const PackedLinearOptions& options);

  // x: [rows, k], y: [rows, n], dense and apart from each other. May be called by several threads at once.
  void operator()(std::int64_t rows, const void* x, void* y) const {
    if (rows > 0) backend_->run(rows, x, y);
  }

 private:
  std::unique_ptr<Backend> backend_;
};

// Null where oneDNN does not do it.
std::unique_ptr<PackedLinear::Backend> onednn_packed_linear(const Tensor& weight, const Tensor& bias,
                                                            const PackedLinearOptions& options);
// For every dtype, with gemm().
std::unique_ptr<PackedLinear::Backend> plain_packed_linear(const Tensor& weight, const Tensor& bias,
                                                           const PackedLinearOptions& options);

}  // namespace foldgrad
