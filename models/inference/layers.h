// The sublayers of a Transformer at inference, for the files that run them. The stream of residuals, x, is compute_t<T>
// (f32 where products read bf16); each sublayer ends with a product that adds to it, so nothing is left to be done
// where a normalizer was.
#pragma once
#include "models/blocks/layers.h"
#include "models/inference/norm.h"
#include "ops/linear/packed_linear.h"

namespace foldgrad {

// Scratch tensors between two products, kept from call to call and reallocated when there are more rows.
template <class T>
struct InferenceWorkspace {
  Tensor normalized, attended, hidden, query;  // [rows, C], [rows, C], [rows, ffn], [rows, C]

  void reserve(std::int64_t rows, const BlockConfig& config);
};

template <class T>
class InferenceSublayer {
 public:
  InferenceSublayer(Sublayer& sublayer, bool pre_norm);

  // branch(in) returns the operand of the last product, computed from `in`.
  template <class Branch>
  void run(const Segments& rows, compute_t<T>* x, InferenceWorkspace<T>& workspace, const Branch& branch) const {
    T* normalized = workspace.normalized.template data<T>();
    const T* in = pre_norm_ ? norm_(rows, x, normalized) : readable<T>(rows.rows() * columns_, x, normalized);
    const T* result = branch(in);  // which has read x for the last time
    residual_.in_place(rows, x);
    out_(rows.rows(), result, x);
    if (!pre_norm_) norm_.in_place(rows, x);
  }

 private:
  std::int64_t columns_;
  bool pre_norm_;
  PackedLinear out_;
  InferenceNorm<T> norm_, residual_;
};

template <class T>
struct InferenceLayer {
  InferenceLayer(TransformerLayer& layer, const BlockConfig& config);

  void feed_forward(const Segments& rows, compute_t<T>* x, InferenceWorkspace<T>& workspace) const;

  PackedLinear qkv;  // to queries, keys and values, side by side
  InferenceSublayer<T> self_attention;
  std::optional<PackedLinear> q, kv;  // of decoder layers: to queries; from the encoder's output to keys and values
  std::optional<InferenceSublayer<T>> cross_attention;

 private:
  PackedLinear fc1_;
  InferenceSublayer<T> feed_forward_;
};

}  // namespace foldgrad
