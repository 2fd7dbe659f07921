// The weights of linear layers for inference on the CPU, each brought into the order of packed_linear.h when it is
// first used. A forward pass that has them (ForwardPass::packed) computes what follows a product within it.
//
// Products read x in `dtype`. In bf16, what they add to, the stream of residuals, stays f32.
#pragma once
#include <map>

#include "models/blocks/layers.h"
#include "models/model.h"
#include "ops/linear/packed_linear.h"

namespace foldgrad {

// For one thread at a time. The layers must outlive it and must not change.
class PackedWeights {
 public:
  explicit PackedWeights(DType dtype) : dtype_(dtype) {}

  // Returns activation(x W^T + b) of layers that read the same x, side by side, [rows, sum of columns], in `dtype`.
  Var product(const std::vector<LinearLayer*>& layers, const Var& x, std::optional<Activation> activation = {});
  // Returns scale stream + x W^T + b, in place of the stream where nothing else has its memory.
  Var add(Var stream, double scale, LinearLayer& layer, const Var& x);
  // Returns x W^T + b in f64 if `dtype` is f64, otherwise in f32. Asks once for matrix(), with the parameter's rows.
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

// The precision that a model runs in at inference, with its weights packed on the CPU. In bf16 weights and what
// products read are bf16; what is summed from sublayer to sublayer is f32 on the CPU, bf16 on other devices, as in
// training.
class InferencePrecision {
 public:
  // Throws std::invalid_argument, which begins with `who`, unless dtype is f64 for a model of f64, f32 or bf16 for one
  // of f32.
  InferencePrecision(const char* who, const Model& model, DType dtype);

  DType dtype() const { return dtype_; }
  ForwardPass pass(Tape& tape);

 private:
  DType dtype_;
  std::optional<PackedWeights> packed_;
};

}  // namespace foldgrad
