// The sublayers of a Transformer, for all families. An encoder-decoder names parameters as fairseq does
// (LAYER.self_attn.q_proj.weight, LAYER.fc1.bias); image families name them as timm does.
//
// In the following forms, branch is attention, or the first layer and the activation of a feed-forward block. W_out and
// b_out are the sublayer's last layer:
//
//   pre-norm:   x + drop(W_out branch(norm(x)) + b_out)
//   post-norm:  norm(residual_scale x + drop(W_out branch(x) + b_out))
//   folded post-norm:  affine(x) + W_out branch(x) + b_out; affine is the folded normalizer of the previous sublayer
//   on the stream:  [CCT-2] n + drop(W_out branch(n) + b_out), n = norm(x)
#pragma once
#include <functional>
#include <optional>

#include "models/blocks/config.h"
#include "models/blocks/linear_layer.h"
#include "ops/attention/attention.h"

namespace foldgrad {

struct BlockMaker;

// The position of a sublayer's normalizer in the forms above.
enum class NormPlace { pre, post, stream };
inline NormPlace norm_place(const BlockConfig& config) { return config.pre_norm ? NormPlace::pre : NormPlace::post; }

// The common parts of all sublayers: the normalizer and its position, and the sum at the end.
class Sublayer {
 public:
  std::string name;  // name of the tape scope; normalizers open their own scopes
  LinearLayer out;
  std::unique_ptr<Normalizer> norm;
  std::unique_ptr<Normalizer> residual;  // applied to x in the sum; usually null (see BlockConfig::normalizer_at)
  NormPlace place;

  Sublayer(const BlockMaker& make, const std::string& name, LinearLayer out, std::unique_ptr<Normalizer> norm,
           NormPlace place);

  // Runs the sublayer on x [N, width], whose sequences are `rows`. branch(in) computes everything between the
  // normalizer (if it comes first) and `out`. At inference the sum reuses x's memory if nothing else needs x.
  Var operator()(Var x, const Segments& rows, const ForwardPass& pass, const std::function<Var(Var in)>& branch);
  void list(ModelParts& parts);
  ResidualConstants constants() const;  // the normalizer's residual_scale and initial gain

 private:
  double dropout_, drop_path_;
  std::uint32_t stream_, path_stream_;
};

// Makes blocks and their parts.
struct BlockMaker {
  const BlockConfig& config;
  DType dtype;
  Device device;
  // The number of layers in each stack, which deepnorm needs; 0 if the model has no such stack. Names of a decoder's
  // sites begin with "decoder.".
  std::int64_t encoder_layers, decoder_layers;
  double drop_path = 0;  // drop-path rate of the layers that are made

  // Returns a maker for layer `layer` (0-based) of `layers`. Its drop-path rate is
  // config.drop_path * layer / (layers - 1).
  BlockMaker at_layer(std::int64_t layer, std::int64_t layers) const;
  // Make the normalizer of a site. `sublayer` ("attention" or "other") and the numbers of layers above determine
  // options of deepnorm, dyt and derf that the user has not set.
  std::unique_ptr<Normalizer> normalizer(const std::string& site) const { return normalizer(site, config.width); }
  std::unique_ptr<Normalizer> normalizer(const std::string& site, std::int64_t channels,
                                         const char* sublayer = "other") const;
  // Makes the linear layer for one of a block's matrices, with a standardized weight if the configuration asks for it.
  LinearLayer block_linear(BlockMatrix matrix, const std::string& name, std::int64_t in, std::int64_t out,
                           bool with_bias = true) const {
    return {name, in, out, dtype, device, with_bias && config.has_bias(matrix), config.standardizes(matrix)};
  }
};

struct AttentionBlock;

// Attends from `in` [N, width] to keys and values, which come from the same rows, from other rows, or from a cache.
using Attend = std::function<Var(AttentionBlock& block, const Var& in)>;

struct AttentionNames {
  std::string scope, norm;                 // the sublayer's scope, and the site of its normalizer
  std::vector<std::string> qkv = {"qkv"};  // linear layers within `scope`: one layer for q, k and v, or three
  std::string out = "proj";                // output layer within `scope`
};

struct AttentionBlock {
  AttentionBlock(const BlockMaker& make, const AttentionNames& names, bool qkv_bias = true);
  Var operator()(Var x, const Segments& rows, const Attend& own, const ForwardPass& pass);
  // Self-attention over `in`.
  Var attend(const Var& in, const Segments& rows, bool causal, const ForwardPass& pass);
  // Attends from `in`, with segments `queries`, to keys and values of `states`, with segments `keys`. Throws
  // std::invalid_argument unless q, k and v are three layers. `causal` is for attend() above.
  Var attend(const Var& in, const Segments& queries, const Var& states, const Segments& keys, const ForwardPass& pass,
             bool causal = false);
  // Returns the options for attention from `queries`, with the block's dropout.
  AttentionOptions options(bool causal, const Segments& queries, const ForwardPass& pass) const;
  void list(ModelParts& parts);

  // Either one layer, whose weight holds the rows of q, k and v in this order, or three layers.
  std::vector<LinearLayer> qkv;
  Sublayer sublayer;
  int heads;

 private:
  double dropout_;
  std::uint32_t stream_;
};

struct FeedForwardNames {
  std::string prefix, scope, norm;  // prefix of linear layers, the sublayer's scope, its normalizer's site
  std::string fc1 = "fc1", fc2 = "fc2", gate = "gate";  // names of the linear layers PREFIX.fc1 and so on
};

struct FeedForwardBlock {
  FeedForwardBlock(const BlockMaker& make, const FeedForwardNames& names, NormPlace place);
  Var operator()(Var x, const Segments& rows, const ForwardPass& pass);
  void list(ModelParts& parts);

  LinearLayer fc1;
  std::optional<LinearLayer> gate = {};  // present if BlockConfig::gated is set
  Sublayer sublayer;                     // its linear layer `out` is fc2

 private:
  Var hidden(const Var& x, const Segments& rows, const ForwardPass& pass);

  Activation activation_;
  double dropout_;
  std::uint32_t stream_;
};

struct TransformerLayer {
  // Runs the layer. `own` computes self-attention; `cross`, if given, computes attention to an encoder.
  Var operator()(Var x, const Segments& rows, const Attend& own, const ForwardPass& pass,
                 const Attend& cross = nullptr);
  void list(ModelParts& parts);

  AttentionBlock self_attention;
  FeedForwardBlock feed_forward;
  std::unique_ptr<AttentionBlock> cross_attention = nullptr;  // precedes feed_forward; null without an encoder
};

}  // namespace foldgrad
