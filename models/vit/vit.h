// The vision Transformer of config.h, which tells images apart.
//
//   Vit model(config, seed);
//   Var loss = model.loss({{"images", images}, {"target", target}}, {.tape = tape, .dtype = DType::f32}, 0.1);
//
//   [VIT-1]  x = drop(concat(cls, patches W_p^T + b_p) + positions); with pooling = mean without cls
//   [VIT-2]  logits = head(norm(x)_0), with pooling = mean head(mean_t norm(x)_t); post-norm has no norm there
//
//   Inputs: "images", [B, S, S, 3], S = image_size, the channels last, bytes or as config.pixels has normalized them;
//   "target", i64 [B], classes; of mixed images also "second_target", i64 [B], and "share", f32 [B], what the first
//   class has of the image [CE-5]. Between [VIT-1] and [VIT-2] are the layers of models/blocks/layers.h. All tokens
//   count in the statistics of normalizers.
//
//   Names and shapes of parameters are timm's (huggingface/pytorch-image-models, vision_transformer.py): cls_token
//   [1, 1, width], pos_embed [1, tokens, width], patch_embed.proj, blocks.I.attn.qkv, blocks.I.norm1, ..., norm, head.
//   With m = ffn_width, p = patch, T tokens, b = 1 with qkv_bias, and normalizers of gain and bias there are
//   (3 p^2 + 1) width + T width + [cls] width + layers (4 width^2 + 2 m width + m + 6 width + 3 b width) + 2 width +
//   (width + 1) classes of them.
#pragma once
#include <deque>

#include "models/blocks/layers.h"
#include "models/model.h"
#include "models/vit/config.h"

namespace foldgrad {

constexpr std::int64_t kImageChannels = 3;

struct VitLayer {
  VitLayer(const BlockMaker& make, const std::string& name, bool qkv_bias);
  std::vector<const LinearLayer*> linears() const {
    return {&attention.qkv, &attention.sublayer.out, &feed_forward.fc1, &feed_forward.sublayer.out};
  }

  PackedAttentionBlock attention;
  FeedForwardBlock feed_forward;
};

class Vit final : public Model {
 public:
  // Parameters have `dtype`. Without a seed those that init.h fills are 0, for values to be copied into. Throws
  // std::invalid_argument for what config.validate() and make_normalizer refuse.
  Vit(const VitConfig& config, std::optional<std::uint64_t> seed, DType dtype = DType::f32,
      Device device = Device::cpu);

  const VitConfig& config() const { return config_; }

  const char* family() const override { return "vit"; }
  using Model::normalizers;
  using Model::parameters;
  std::vector<Parameter*> parameters() override;
  std::vector<Normalizer*> normalizers() override;
  std::vector<Parameter*> output_parameters() override { return head_.parameters(); }
  std::vector<Parameter*> vectors() override;  // with the positions
  // Throw std::invalid_argument for images of another shape.
  Var forward(const NamedTensors& inputs, const ForwardPass& pass) override;
  Var loss(const NamedTensors& inputs, const ForwardPass& pass, double label_smoothing) override;
  NamedTensors smallest_inputs() const override;
  // Eight images of normally distributed pixels.
  NamedTensors random_inputs(std::uint64_t seed) const override;
  std::unique_ptr<Model> alike(DType dtype, Device device) const override;
  // With a bias in qkv, where normalizers may put one, and standardized weights as plain ones.
  std::unique_ptr<Model> foldable() override;
  std::unique_ptr<Model> folded(const FoldedGraph& graph) const override;

  // The parts.
  Parameter& patch_weight() { return patch_weight_; }  // [width, 3, patch, patch]
  Parameter& patch_bias() { return patch_bias_; }
  Parameter* cls() { return config_.has_cls() ? &cls_ : nullptr; }
  Parameter& positions() { return positions_; }
  std::deque<VitLayer>& layers() { return layers_; }
  Normalizer* norm() { return norm_.get(); }  // null with post-norm
  LinearLayer& head() { return head_; }

 private:
  Var embed(const Tensor& images, const ForwardPass& pass);
  Var logits(const Var& x, const ForwardPass& pass);

  VitConfig config_;
  BlockMaker make_;
  Parameter patch_weight_, patch_bias_, cls_, positions_;
  std::deque<VitLayer> layers_;  // a deque never moves what it holds
  std::unique_ptr<Normalizer> norm_;
  LinearLayer head_;
};

}  // namespace foldgrad
