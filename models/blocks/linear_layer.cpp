#include "models/blocks/linear_layer.h"

#include "engine/check.h"
#include "models/blocks/packed_weights.h"
#include "models/model_parts.h"
#include "ops/activation/activation.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/cast/cast.h"
#include "ops/concat/concat.h"
#include "ops/linear/linear.h"
#include "ops/weight_standardize/weight_standardize.h"

namespace foldgrad {

// Uses the unbiased variance, as in benjs/nfnets_pytorch.
constexpr WeightStandardizeOptions kStandardization{.unbiased = true};

LinearLayer::LinearLayer(const std::string& name, std::int64_t in, std::int64_t out, DType dtype, Device device,
                         bool with_bias, bool standardized)
    : weight{name + ".weight", Tensor::zeros({out, in}, dtype, device)},
      bias{name + ".bias", with_bias ? Tensor::zeros({out}, dtype, device) : Tensor()},
      gain{name + ".gain", standardized ? Tensor::full({out}, 1, dtype, device) : Tensor()} {}

void LinearLayer::list(ModelParts& parts) { parts.add(weight, bias, gain); }

Var LinearLayer::matrix(const ForwardPass& pass) {
  if (!has_gain()) return pass.use(weight);
  const Var W = pass.tape.parameter(weight);
  const Var g = pass.tape.parameter(gain);
  return cast(weight_standardize(W, g, kStandardization), pass.dtype);
}

Tensor LinearLayer::matrix_values() const {
  if (!has_gain()) return weight.value;
  Tape tape(/*recording=*/false);
  const Var W = tape.constant(weight.value), g = tape.constant(gain.value);
  return weight_standardize(W, g, kStandardization).value();
}

Var LinearLayer::operator()(const Var& x, const ForwardPass& pass) {
  if (pass.packed) return pass.packed->product({this, 1}, x);
  const Var W = matrix(pass);
  if (!has_bias()) return linear(x, W);
  const Var b = pass.use(bias);
  return linear(x, W, b);
}

Var LinearLayer::activated(const Var& x, Activation activation, double dropout, const Random& random,
                           const ForwardPass& pass) {
  if (pass.packed) return pass.packed->product({this, 1}, x, activation);
  const Var z = linear(x, matrix(pass));
  if (!has_bias()) return foldgrad::dropout(activate(z, activation), dropout, random);
  const Var b = pass.use(bias);
  return bias_activation_dropout(z, b, activation, dropout, random);
}

Var LinearLayer::add_to(Var stream, double scale, const Var& x, double dropout, const Random& random,
                        const DropPath& path, const ForwardPass& pass) {
  if (pass.packed) return pass.packed->add(std::move(stream), scale, *this, x);
  const Var z = linear(x, matrix(pass));
  const auto scaled_stream = [&] { return scale == 1 ? stream : foldgrad::scale(stream, scale); };
  if (!has_bias()) {
    FOLDGRAD_CHECK(path.p == 0, "{}: drop path needs a layer with a bias", weight.name);
    const Var dropped = foldgrad::dropout(z, dropout, random);
    const Var scaled = scaled_stream();
    return add(scaled, dropped);
  }
  const Var b = pass.use(bias);
  const Var scaled = scaled_stream();
  return bias_dropout_residual(z, b, scaled, dropout, random, path);
}

bool is_one_product(std::span<const LinearLayer> layers, const ForwardPass& pass) {
  return layers.size() == 1 || pass.packed;
}

Var side_by_side(std::span<LinearLayer> layers, const Var& x, const ForwardPass& pass) {
  if (pass.packed) return pass.packed->product(layers, x);
  if (layers.size() == 1) return layers[0](x, pass);
  std::vector<Var> results;
  for (LinearLayer& layer : layers) results.push_back(layer(x, pass));
  return concat(results, 1);
}

Var output_logits(const Var& hidden, Parameter& table, Parameter& bias, const ForwardPass& pass,
                  Var (*rows)(const Var& table)) {
  const auto matrix = [rows](const Var& t) { return rows ? rows(t) : t; };
  if (pass.packed)
    return pass.packed->exact_product(
        table, [&] { return matrix(pass.tape.constant(table.value)).value(); }, bias.value, hidden);
  const Var O = matrix(pass.use(table));
  return bias.value.defined() ? linear(hidden, O, pass.use(bias)) : linear(hidden, O);
}

}  // namespace foldgrad
