// Linear layers, and the operations that directly follow a matrix product in a sublayer. At inference on the CPU,
// packed weights may compute these operations within the product (packed_weights.h). No other part of a model's forward
// pass needs to deal with packed weights.
#pragma once
#include <span>

#include "models/forward_pass.h"
#include "ops/activation/activation_math.h"

namespace foldgrad {

struct ModelParts;  // defined in models/model_parts.h; list() adds this layer's parts to it

struct LinearLayer {
  LinearLayer(const std::string& name, std::int64_t in, std::int64_t out, DType dtype, Device device,
              bool with_bias = true, bool standardized = false);
  Var operator()(const Var& x, const ForwardPass& pass);
  // Returns drop(activation(x W^T + b)).
  Var activated(const Var& x, Activation activation, double dropout, const Random& random, const ForwardPass& pass);
  // Returns scale * stream + drop(x W^T + b). At inference, reuses the stream's memory if nothing else needs it.
  Var add_to(Var stream, double scale, const Var& x, double dropout, const Random& random, const DropPath& path,
             const ForwardPass& pass);
  // Returns the matrix W: the weight or, if the layer has a gain, the weight standardized in its own dtype.
  Var matrix(const ForwardPass& pass);
  // Returns the value of matrix() without recording it.
  Tensor matrix_values() const;
  bool has_bias() const { return bias.value.defined(); }
  bool has_gain() const { return gain.value.defined(); }
  void list(ModelParts& parts);

  // The shapes are [out, in], [out] and [out]. The value of an absent bias or gain is undefined.
  Parameter weight, bias, gain;
};

// Returns the results of several layers that read the same x. The results are concatenated: [N, total number of
// columns].
Var side_by_side(std::span<LinearLayer> layers, const Var& x, const ForwardPass& pass);
// True if side_by_side() computes one product for all layers. In a recording each layer has its own product, by which
// folding and export identify it.
bool is_one_product(std::span<const LinearLayer> layers, const ForwardPass& pass);

// Returns the logits, hidden O^T + bias, where O is rows(table) if `rows` is given, otherwise the table. The value of
// `bias` may be undefined.
Var output_logits(const Var& hidden, Parameter& table, Parameter& bias, const ForwardPass& pass,
                  Var (*rows)(const Var& table) = nullptr);

}  // namespace foldgrad
