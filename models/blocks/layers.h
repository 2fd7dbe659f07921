// The sublayers of a Transformer, whatever family it belongs to. An encoder-decoder's parameters are named as in
// fairseq: LAYER.self_attn.q_proj.weight, LAYER.fc1.bias; a family of images names its own as timm does.
//
//   pre-norm:   x + drop(W_out branch(norm(x)) + b_out)
//   post-norm:  norm(residual_scale x + drop(W_out branch(x) + b_out))
//   folded post-norm:  affine(x) + W_out branch(x) + b_out, the affine being the normalizer of the sublayer before
//   on the stream:  [CCT-2] n + drop(W_out branch(n) + b_out), n = norm(x)
#pragma once
#include <functional>
#include <optional>

#include "models/blocks/config.h"
#include "models/forward_pass.h"
#include "ops/attention/attention.h"

namespace foldgrad {

struct BlockMaker;
struct ModelParts;  // models/model.h, to which list() adds

// The place of a sublayer's normalizer, as above.
enum class NormPlace { pre, post, stream };
inline NormPlace norm_place(const BlockConfig& config) { return config.pre_norm ? NormPlace::pre : NormPlace::post; }

struct LinearLayer {
  LinearLayer(const std::string& name, std::int64_t in, std::int64_t out, DType dtype, Device device,
              bool with_bias = true, bool standardized = false);
  Var operator()(const Var& x, const ForwardPass& pass);
  // Returns the matrix of the product: the weight, or, with a gain, the weight standardized in its own dtype.
  Var matrix(const ForwardPass& pass);
  // Returns the same matrix, unrecorded.
  Tensor matrix_values() const;
  bool has_bias() const { return bias.value.defined(); }
  bool has_gain() const { return gain.value.defined(); }
  void list(ModelParts& parts);

  // [out, in], [out], [out]; without a bias or a gain its value is not defined.
  Parameter weight, bias, gain;
};

// Returns the results of layers that read the same x, side by side: [N, sum of their columns].
Var side_by_side(const std::vector<LinearLayer*>& layers, const Var& x, const ForwardPass& pass);

// The common part of all sublayers: the normalizer's place, and the sum at the end.
class Sublayer {
 public:
  std::string name;  // the tape's scope; normalizers open their own
  LinearLayer out;
  std::unique_ptr<Normalizer> norm;
  std::unique_ptr<Normalizer> residual;  // of x in the sum; mostly null, see BlockConfig::normalizer_at
  NormPlace place;

  Sublayer(const BlockMaker& make, const std::string& name, LinearLayer out, std::unique_ptr<Normalizer> norm,
           NormPlace place);

  // Returns the sublayer of x [N, width], whose sequences are `rows`, with branch(in) for what stands between the
  // normalizer, if it comes first, and `out`. At inference the sum takes x's memory if nothing else has it.
  Var operator()(Var x, const Segments& rows, const ForwardPass& pass, const std::function<Var(Var in)>& branch);
  void list(ModelParts& parts);

 private:
  double dropout_, drop_path_;
  std::uint32_t stream_, path_stream_;
};

// The maker of blocks and of their parts.
struct BlockMaker {
  const BlockConfig& config;
  DType dtype;
  Device device;
  // Layers of the model, for deepnorm; sites of a decoder begin with "decoder.". 0: no such stack.
  std::int64_t encoder_layers, decoder_layers;
  double drop_path = 0;  // for the layer being made

  // Returns the maker of layer I of `layers`, counted from 0: with the rate config.drop_path I / (layers - 1).
  BlockMaker at_layer(std::int64_t layer, std::int64_t layers) const;
  std::unique_ptr<Normalizer> normalizer(const std::string& site) const { return normalizer(site, config.width); }
  std::unique_ptr<Normalizer> normalizer(const std::string& site, std::int64_t channels) const;
  // Makes the layer with this matrix of a block, standardized where the configuration says so.
  LinearLayer block_linear(BlockMatrix matrix, const std::string& name, std::int64_t in, std::int64_t out,
                           bool with_bias = true) const {
    return {name, in, out, dtype, device, with_bias, config.standardizes(matrix)};
  }
};

struct AttentionBlock;

// Returns what a sublayer's queries, those of `in` [N, width], take from the keys and values that they look at: those
// of the same rows, of other rows, or of a cache of earlier steps.
using Attend = std::function<Var(AttentionBlock& block, const Var& in)>;

struct AttentionNames {
  std::string scope, norm;                 // of the sublayer, and the site of its normalizer
  std::vector<std::string> qkv = {"qkv"};  // of the linear layers SCOPE.qkv: one for queries, keys and values, or three
  std::string out = "proj";                // of the linear layer SCOPE.out
};

struct AttentionBlock {
  AttentionBlock(const BlockMaker& make, const AttentionNames& names, bool qkv_bias = true);
  Var operator()(Var x, const Segments& rows, const Attend& attend, const ForwardPass& pass);
  // Returns queries, keys and values of `in`, side by side.
  Var projected(const Var& in, const ForwardPass& pass);
  // Return the attention of `in` to itself, the second from what projected() made of it.
  Var attend(const Var& in, const Segments& rows, bool causal, const ForwardPass& pass);
  Var attend_projected(const Var& qkv, const Segments& rows, bool causal, const ForwardPass& pass) const;
  // Returns the attention of `in`, with segments `queries`, to keys and values made of `states`, with segments `keys`.
  Var attend(const Var& in, const Segments& queries, const Var& states, const Segments& keys, const ForwardPass& pass);
  void list(ModelParts& parts);

  // One, whose rows are those of q, then of k, then of v; or these three, whose values lie together on a GPU.
  std::vector<LinearLayer> qkv;
  Sublayer sublayer;
  int heads;

 private:
  AttentionOptions options(bool causal, const Segments& queries, const ForwardPass& pass) const;
  // Returns true where each layer has a product of its own: where that takes no longer, and in a recording at
  // inference, since folding and export, which read it, know layers by their products.
  bool products_apart(const Var& in, const ForwardPass& pass) const;
  Var attend_apart(const Var& in, const Segments& queries, const Var& states, const Segments& keys, bool causal,
                   const ForwardPass& pass);

  double dropout_;
  std::uint32_t stream_;
};

struct FeedForwardNames {
  std::string prefix, scope, norm;       // of the linear layers, of the sublayer, and the site of its normalizer
  std::string fc1 = "fc1", fc2 = "fc2";  // linear layers PREFIX.fc1 and PREFIX.fc2
};

struct FeedForwardBlock {
  FeedForwardBlock(const BlockMaker& make, const FeedForwardNames& names, NormPlace place);
  Var operator()(Var x, const Segments& rows, const ForwardPass& pass);
  void list(ModelParts& parts);

  LinearLayer fc1;
  Sublayer sublayer;  // whose `out` is fc2

 private:
  Var hidden(const Var& x, const Segments& rows, const ForwardPass& pass);

  Activation activation_;
  double dropout_;
  std::uint32_t stream_;
};

struct TransformerLayer {
  // Runs the layer. `cross` is like `own`, for the attention to an encoder, if there is one.
  Var operator()(Var x, const Segments& rows, const Attend& own, const ForwardPass& pass,
                 const Attend& cross = nullptr);
  void list(ModelParts& parts);

  AttentionBlock self_attention;
  FeedForwardBlock feed_forward;
  std::unique_ptr<AttentionBlock> cross_attention = nullptr;  // of layers that attend to an encoder, between the others
};

}  // namespace foldgrad
