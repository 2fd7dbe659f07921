#include "models/blocks/packed_weights.h"

#include "engine/check.h"
#include "ops/cast/cast.h"
#include "ops/linear/stacked.h"

namespace foldgrad {
namespace {

PackedLinear pack(std::span<const LinearLayer> layers, const PackedLinearOptions& options) {
  std::vector<Tensor> matrices, biases;
  for (const LinearLayer& layer : layers) {
    matrices.push_back(layer.matrix_values());
    biases.push_back(layer.has_bias() ? layer.bias.value : Tensor::zeros({matrices.back().shape()[0]}, DType::f32));
  }
  return packed_linear(stacked(matrices), stacked(biases), options);
}

}  // namespace

Var PackedWeights::run(const PackedLinear& layer, const Var& x, const Tensor& y) const {
  const Var in = cast(x, dtype_);
  layer(x.shape()[0], in.value().raw(), y.raw());
  return x.tape().constant(y);
}

Var PackedWeights::product(std::span<const LinearLayer> layers, const Var& x, std::optional<Activation> activation) {
  const Use use{&layers[0].weight, layers.size(), {.in = dtype_, .out = dtype_, .activation = activation}};
  std::int64_t columns = 0;
  for (const LinearLayer& layer : layers) columns += layer.weight.value.shape()[0];
  return run(packed(use, [&] { return pack(layers, use.options); }), x, Tensor::empty({x.shape()[0], columns}, dtype_));
}

Var PackedWeights::add(Var stream, double scale, const LinearLayer& layer, const Var& x) {
  const Use use{&layer.weight, 1, {.in = dtype_, .out = stream.dtype(), .add = scale}};
  const Tensor y = stream.value().owns_storage() ? stream.value() : stream.value().clone();
  return run(packed(use, [&] { return pack({&layer, 1}, use.options); }), x, y);
}

InferencePrecision::InferencePrecision(const char* who, const Model& model, DType dtype) : dtype_(dtype) {
  const bool exact = model.dtype() == DType::f64;
  FOLDGRAD_CHECK(exact ? dtype == DType::f64 : dtype == DType::f32 || dtype == DType::bf16,
                 "{}: a model of type {} must run in {}, got {}", who, name(model.dtype()),
                 exact ? "f64" : "f32 or bf16", name(dtype));
  if (model.device() == Device::cpu) packed_.emplace(dtype);
}

ForwardPass InferencePrecision::pass(Tape& tape) {
  const bool wider = packed_ && dtype_ == DType::bf16;
  return {.tape = tape, .dtype = wider ? DType::f32 : dtype_, .packed = packed_ ? &*packed_ : nullptr};
}

}  // namespace foldgrad
