// The parts of a Transformer as nodes of ONNX. Each takes the names of values and gives the name of its result; x is
// [batch, length, width] unless stated.
#pragma once
#include "models/blocks/layers.h"
#include "models/onnx/graph.h"

namespace foldgrad {

// Weights stand in the file as [in, out].
std::string onnx_linear(OnnxGraph& g, const LinearLayer& layer, const std::string& x);

// The form at inference; x itself where there is no normalizer (null), or one that does nothing.
// Not for one with statistics over the tokens of a sentence.
std::string onnx_normalizer(OnnxGraph& g, Normalizer* norm, const std::string& x, int rank = 3);

// [batch, heads, length, width / heads], the form of cached keys and values.
std::string onnx_split_heads(OnnxGraph& g, const std::string& x, std::int64_t heads, std::int64_t width);
// softmax(q k^T / sqrt(width / heads) + bias) v, its heads merged again. q, k, v: as onnx_split_heads gives them; bias,
// to be spread over [batch, heads, queries, keys], may be empty, for none.
std::string onnx_attention(OnnxGraph& g, const std::string& q, const std::string& k, const std::string& v,
                           const std::string& bias, std::int64_t head_width, std::int64_t width);

// bool -> the bias of attention: 0 where a key may be seen, otherwise so little that nothing is left in the softmax.
// Not -infinity, since a row without any key would become NaN.
std::string onnx_attention_bias(OnnxGraph& g, const std::string& seen);

// branch(what it reads of x) -> what the last linear layer reads.
template <class Branch>
std::string onnx_sublayer(OnnxGraph& g, const Sublayer& sublayer, const std::string& x, const Branch& branch) {
  const bool post_norm = sublayer.place == NormPlace::post;
  const std::string in = post_norm ? x : onnx_normalizer(g, sublayer.norm.get(), x);
  std::string kept = onnx_normalizer(g, sublayer.residual.get(), sublayer.place == NormPlace::stream ? in : x);
  g.at(sublayer.name);
  const std::string added = onnx_linear(g, sublayer.out, branch(in));
  if (const double s = sublayer.norm->residual_scale(); s != 1 && post_norm) kept = g.node("Mul", {kept, g.number(s)});
  const std::string sum = g.node("Add", {kept, added});
  return post_norm ? onnx_normalizer(g, sublayer.norm.get(), sum) : sum;
}

}  // namespace foldgrad
