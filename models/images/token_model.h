// The common part of image classifiers whose layers keep the number of tokens. A family uses TokenModel as the base of
// ImageFamily, and provides names, layers and the tokens of an image.
//
//   [VIT-1]  x = drop(concat(cls, tokens(images)) + positions); without cls unless pooling = cls
//   [VIT-3]  positions = sinusoidal: initially positions_(rS+c) = concat(table_(c+2), table_(r+2)) (init.cpp)
//   [CCT-3]  pool with sequence: sum_t w_t x_t, w = softmax over t of a x_t + a_0; with cls: x_0
//
//   The layers of models/blocks/layers.h follow [VIT-1]; their results are the features of [VIT-2]. Channel statistics
//   use all tokens.
#pragma once
#include "models/images/model.h"

namespace foldgrad {

class TokenModel : public ImageModel {
 public:
  const TokenModelConfig& config() const override = 0;

  // Returns a model with biases for normalizers to fold into, and with plain instead of standardized weights.
  std::unique_ptr<Model> foldable() override;

  // Parts of the model.
  Parameter* cls() { return config().has_cls() ? &cls_ : nullptr; }
  Parameter& positions() { return positions_; }
  std::deque<TransformerLayer>& layers() { return layers_; }
  LinearLayer* attention_pool() { return attention_pool_.get(); }  // null unless pooling = sequence

 protected:
  struct Names {
    std::string stem, cls = "cls_token", positions = "pos_embed", norm = "norm";
    std::string attention_pool = "attention_pool", head = "head";
  };
  // Makes everything except the stem and the layers. `tokens` is the number of tokens per image, including cls.
  TokenModel(const TokenModelConfig& config, const Names& names, std::int64_t tokens, DType dtype, Device device);

  // Returns tokens [B, tokens of the image, width] of pixels [B, S, S, 3].
  virtual Var tokens(const Var& pixels, const ForwardPass& pass) = 0;

  void list(ModelParts& parts) override;

 private:
  void initialize(std::uint64_t seed) override;
  Var features(const Var& pixels, const ForwardPass& pass) override;
  Var pooled(const Var& x, std::int64_t images, const ForwardPass& pass) override;
  Var embed(const Var& pixels, const Segments& rows, const ForwardPass& pass);  // returns [B T, width]

  Parameter cls_, positions_;
  std::deque<TransformerLayer> layers_;
  std::unique_ptr<LinearLayer> attention_pool_;
};

}  // namespace foldgrad
