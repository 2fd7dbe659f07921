// Packed weights of linear layers, for inference on the CPU. Each weight is packed when it is first used
// (packed_linear.h). A forward pass with ForwardPass::packed applies bias, activation or addition within the product.
//
// Matrix products read x in `dtype`. If `dtype` is bf16, the residual stream stays f32.
#pragma once
#include <map>
#include <optional>
#include <span>

#include "models/blocks/linear_layer.h"
#include "models/model.h"
#include "ops/linear/packed_linear.h"

namespace foldgrad {

// Use from one thread at a time. The layers must outlive this object and must not change.
class PackedWeights {
 public:
  explicit PackedWeights(DType dtype) : dtype_(dtype) {}

  // Returns activation(x W^T + b) of several layers that read the same x. The results are concatenated: [rows, total
  // number of columns], in `dtype`.
  Var product(std::span<const LinearLayer> layers, const Var& x, std::optional<Activation> activation = {});
  // Returns scale * stream + x W^T + b. Overwrites the stream if nothing else needs it.
  Var add(Var stream, double scale, const LinearLayer& layer, const Var& x);
  // Returns x W^T + b, in f64 if `dtype` is f64, otherwise in f32. matrix() must return W; it is called only at the
  // first use of `parameter`.
  template <class Matrix>
  Var exact_product(const Parameter& parameter, const Matrix& matrix, const Tensor& bias, const Var& x) {
    const DType out = dtype_ == DType::f64 ? DType::f64 : DType::f32;
    const Use use{&parameter, 1, {.in = dtype_, .out = out}};
    return run(packed(use, [&] { return packed_linear(matrix(), bias, use.options); }), x,
               Tensor::empty({x.shape()[0], parameter.value.shape()[0]}, out));
  }

 private:
  struct Use {
    const Parameter* first;
    std::size_t layers;
    PackedLinearOptions options;
    auto operator<=>(const Use&) const = default;
  };

  template <class Make>
  const PackedLinear& packed(const Use& use, const Make& make) {
    if (const auto found = all_.find(use); found != all_.end()) return found->second;
    return all_.emplace(use, make()).first->second;
  }
  Var run(const PackedLinear& layer, const Var& x, const Tensor& y) const;

  DType dtype_;
  std::map<Use, PackedLinear> all_;
};

// A model's precision at inference. On the CPU, weights are packed. With bf16, weights and the inputs of matrix
// products are bf16. The residual stream is then bf16 as in training, except on the CPU, where it is f32.
class InferencePrecision {
 public:
  // Throws std::invalid_argument ("WHO: ...") unless dtype is f64 for an f64 model, or f32 or bf16 for an f32 model.
  InferencePrecision(const char* who, const Model& model, DType dtype);

  DType dtype() const { return dtype_; }
  ForwardPass pass(Tape& tape);

 private:
  DType dtype_;
  std::optional<PackedWeights> packed_;
};

}  // namespace foldgrad
