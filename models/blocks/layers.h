// The sublayers of a Transformer. Parameters are named as in fairseq: LAYER.self_attn.q_proj.weight, LAYER.fc1.bias.
//
//   pre-norm:   x + drop(W_out branch(norm(x)) + b_out)
//   post-norm:  norm(residual_scale x + drop(W_out branch(x) + b_out))
//   folded post-norm:  affine(x) + W_out branch(x) + b_out, the affine being the normalizer of the sublayer before
#pragma once
#include "models/blocks/config.h"
#include "models/forward_pass.h"

namespace foldgrad {

// How blocks are made.
struct BlockMaker;

struct LinearLayer {
  LinearLayer(const std::string& name, std::int64_t in, std::int64_t out, DType dtype, Device device);
  Var operator()(const Var& x, const ForwardPass& pass);

  Parameter weight, bias;  // [out, in], [out]
};

// What all sublayers share: where the normalizer stands, and what is added in the end.
class Sublayer {
 public:
  std::string name;  // of the tape's scope; normalizers open their own
  LinearLayer out;
  std::unique_ptr<Normalizer> norm;
  std::unique_ptr<Normalizer> residual;  // of x in the sum; mostly null, see BlockConfig::normalizer_at

  Sublayer(const BlockMaker& make, const std::string& name, LinearLayer out, std::unique_ptr<Normalizer> norm);

  // What the branch sees of x. `mask`: of x's tokens, for normalizers.
  Var inner(const Var& x, const Tensor* mask, const ForwardPass& pass);
  std::vector<Normalizer*> normalizers();  // in the order of the forward pass
  std::vector<Parameter*> normalizer_parameters();
  Var join(const Var& branch, const Var& x, const Tensor* mask, const ForwardPass& pass);

 private:
  double dropout_;
  bool pre_norm_;
  std::uint32_t stream_;
};

struct BlockMaker {
  const BlockConfig& config;
  DType dtype;
  Device device;
  std::int64_t encoder_layers, decoder_layers;  // of the model, which deepnorm wants to know

  std::unique_ptr<Normalizer> normalizer(const std::string& site) const;
  std::unique_ptr<Normalizer> residual_normalizer(const std::string& sublayer) const;  // null if there is none
  LinearLayer linear(const std::string& name, std::int64_t in, std::int64_t out) const {
    return {name, in, out, dtype, device};
  }
};

struct AttentionBlock {
  // kind: "self_attn" or "encoder_attn".
  AttentionBlock(const BlockMaker& make, const std::string& layer, const std::string& kind);
  // `memory` null: of x itself. key_mask: u8, of the keys.
  Var operator()(const Var& x, const Var* memory, const Var& key_mask, bool causal, const Tensor* mask,
                 const ForwardPass& pass);
  std::vector<Parameter*> parameters();

  LinearLayer q, k, v;
  Sublayer sublayer;
  int heads;

 private:
  Var attend(const Var& query, const Var& keys, const Var& key_mask, bool causal, const ForwardPass& pass);

  double dropout_;
  std::uint32_t stream_;
};

struct FeedForwardBlock {
  FeedForwardBlock(const BlockMaker& make, const std::string& layer);
  Var operator()(const Var& x, const Tensor* mask, const ForwardPass& pass);
  std::vector<Parameter*> parameters();

  LinearLayer fc1;
  Sublayer sublayer;  // whose `out` is fc2

 private:
  Var hidden(const Var& x, const ForwardPass& pass);

  Activation activation_;
  double dropout_;
  std::uint32_t stream_;
};

struct TransformerLayer {
  TransformerLayer(const BlockMaker& make, const std::string& name, bool decoder);
  std::vector<Parameter*> parameters();
  std::vector<Normalizer*> normalizers();

  AttentionBlock self_attention;
  std::unique_ptr<AttentionBlock> cross_attention;  // of decoder layers
  FeedForwardBlock feed_forward;
};

}  // namespace foldgrad
