// The common part of image classifiers: all but the way from an image to tokens. A family derives from ImageModel and
// provides names, layers and tokens.
//
//   [VIT-1]  x = drop(concat(cls, tokens(images)) + positions); without cls unless pooling = cls
//   [VIT-2]  logits = head(pool(norm(x))); post-norm has no norm there. pool: x_0 with cls, mean_t x_t with mean
//   [VIT-3]  positions = sinusoidal: initially positions_(rS+c) = concat(table_(c+2), table_(r+2)) (init.cpp)
//   [CCT-3]  pool with sequence: sum_t w_t x_t, w = softmax over t of a x_t + a_0
//
//   Inputs: "images", [B, S, S, 3] with S = image_size, as bytes or normalized with config().pixels; "target", i64 [B],
//   the classes. For mixed images also "second_target", i64 [B], and "share", f32 [B], the share of the first class
//   [CE-5]. The layers of models/blocks/layers.h are between [VIT-1] and [VIT-2]. Statistics use all tokens.
#pragma once
#include <deque>

#include "models/blocks/layers.h"
#include "models/images/config.h"
#include "models/model.h"

namespace foldgrad {

class OnnxGraph;  // engine/graph/onnx_graph.h

constexpr std::int64_t kImageChannels = 3;

// One step from an image to tokens, followed by a normalizer.
struct ConvLayer {
  Parameter weight, bias;            // [out, in, K, K], [out]; an undefined value if there is no bias
  std::unique_ptr<Normalizer> norm;  // null if there is none
};

class ImageModel : public Model {
 public:
  virtual const ImageModelConfig& config() const = 0;

  // Throws std::invalid_argument for images of a different shape.
  Var forward(const NamedTensors& inputs, const ForwardPass& pass) override;
  Var loss_of(const Var& logits, const NamedTensors& inputs, double label_smoothing) override;
  NamedTensors smallest_inputs() const override;
  // Returns eight images of normally distributed pixels.
  NamedTensors random_inputs(std::uint64_t seed) const override;
  std::unique_ptr<Model> alike(DType dtype, Device device, const FoldedGraph* folded) const override;
  // Returns a model with biases that normalizers can fold into, and with plain instead of standardized weights.
  std::unique_ptr<Model> foldable() override;
  // Writes model.onnx: pixel_values [batch, 3, S, S], normalized, to logits [batch, classes].
  std::vector<std::string> write_onnx(const std::string& directory) override;
  // Adds the nodes before the first parameter of tokens() to an ONNX graph. pixels: [batch, 3, S, S].
  virtual std::string onnx_stem(OnnxGraph& g, const std::string& pixels) const = 0;

  // Parts of the model.
  std::deque<ConvLayer>& stem() { return stem_; }
  Parameter* cls() { return config().has_cls() ? &cls_ : nullptr; }
  Parameter& positions() { return positions_; }
  std::deque<TransformerLayer>& layers() { return layers_; }
  Normalizer* norm() { return norm_.get(); }                       // null with post-norm
  LinearLayer* attention_pool() { return attention_pool_.get(); }  // null unless pooling = sequence
  LinearLayer& head() { return head_; }

 protected:
  struct Names {
    std::string stem, cls, positions, norm, attention_pool, head;
  };
  // Makes all except the stem and the config.layers layers. `tokens` is the number of tokens per image, with cls.
  ImageModel(const ImageModelConfig& config, const Names& names, std::int64_t tokens, DType dtype, Device device);

  // Adds a convolution of zeros, [out, in, kernel, kernel]. A family's constructor calls it.
  ConvLayer& add_conv(const std::string& name, const Shape& shape, bool with_bias);
  // A family's constructor calls it last. Throws std::invalid_argument for sites that do not exist.
  void finish(std::optional<std::uint64_t> seed);

  // pixels [B, S, S, 3] -> [B, tokens of the image, width]
  virtual Var tokens(const Var& pixels, const ForwardPass& pass) = 0;
  // Returns a model of the same family with a changed common configuration.
  virtual std::unique_ptr<Model> with(const ImageModelConfig& changed, DType dtype, Device device) const = 0;

 private:
  void list(ModelParts& parts) override;
  void initialize(std::uint64_t seed);  // not the normalizers' parameters, which are set already
  Tensor input(const NamedTensors& inputs, const char* name) const;  // on the model's device
  const Segments& rows_of(std::int64_t images);                      // the tokens of this number of images
  Var pixels(const Tensor& images, const ForwardPass& pass);
  Var embed(const Tensor& images, const Segments& rows, const ForwardPass& pass);  // [B T, width]
  Var pooled(const Var& x, std::int64_t images, const ForwardPass& pass);          // [B, width]

  Names names_;
  std::deque<ConvLayer> stem_;  // a deque never moves its elements
  Parameter cls_, positions_;
  std::deque<TransformerLayer> layers_;
  std::unique_ptr<Normalizer> norm_;
  std::unique_ptr<LinearLayer> attention_pool_;
  LinearLayer head_;
  Segments rows_;  // of the last batch
};

}  // namespace foldgrad
