// The common part of image classifiers: all but how an image becomes tokens. A family derives from ImageModel and gives
// names, layers and tokens.
//
//   [VIT-1]  x = drop(concat(cls, tokens(images)) + positions); cls with pooling = cls alone
//   [VIT-2]  logits = head(pool(norm(x))); post-norm has no norm there. pool: x_0 with cls, mean_t x_t with mean
//   [VIT-3]  with positions = sinusoidal positions_(rS+c) = concat(table_(c+2), table_(r+2)) at first (init.cpp)
//   [CCT-3]  pool with sequence: sum_t w_t x_t, w = softmax over t of a x_t + a_0
//
//   Inputs: "images", [B, S, S, 3], S = image_size, the channels last, bytes or as config().pixels has normalized them;
//   "target", i64 [B], classes; of mixed images also "second_target", i64 [B], and "share", f32 [B], what the first
//   class has of the image [CE-5]. Between [VIT-1] and [VIT-2] are the layers of models/blocks/layers.h. All tokens
//   count in the statistics of normalizers.
#pragma once
#include <deque>

#include "models/blocks/layers.h"
#include "models/images/config.h"
#include "models/model.h"

namespace foldgrad {

constexpr std::int64_t kImageChannels = 3;

// One step from an image to tokens, and the normalizer after it.
struct ConvLayer {
  Parameter weight, bias;            // [out, in, K, K], [out]; without a bias its value is not defined
  std::unique_ptr<Normalizer> norm;  // null: none
};

class ImageModel : public Model {
 public:
  virtual const ImageModelConfig& config() const = 0;

  // Throws std::invalid_argument for images of another shape.
  Var forward(const NamedTensors& inputs, const ForwardPass& pass) override;
  Var loss_of(const Var& logits, const NamedTensors& inputs, double label_smoothing) override;
  NamedTensors smallest_inputs() const override;
  // Returns eight images of normally distributed pixels.
  NamedTensors random_inputs(std::uint64_t seed) const override;
  std::unique_ptr<Model> alike(DType dtype, Device device, const FoldedGraph* folded) const override;
  // Returns a model with biases where normalizers may put one, and standardized weights as plain ones.
  std::unique_ptr<Model> foldable() override;
  // Writes model.onnx: pixel_values [batch, 3, S, S], normalized, to logits [batch, classes].
  std::vector<std::string> write_onnx(const std::string& directory) override;
  // Adds to an ONNX graph what tokens() does before its first parameter. pixels: [batch, 3, S, S].
  virtual std::string onnx_stem(OnnxGraph& g, const std::string& pixels) const = 0;

  // The parts.
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
  // Makes all but the stem and the layers, whose number is config.layers. tokens: those of an image, cls included.
  ImageModel(const ImageModelConfig& config, const Names& names, std::int64_t tokens, DType dtype, Device device);

  // Adds a convolution of zeros, [out, in, kernel, kernel]. Is called by the constructor of a family.
  ConvLayer& add_conv(const std::string& name, const Shape& shape, bool with_bias);
  // Is called at its end. Throws std::invalid_argument for sites that do not exist.
  void finish(std::optional<std::uint64_t> seed);

  // pixels [B, S, S, 3] -> [B, tokens of the image, width]
  virtual Var tokens(const Var& pixels, const ForwardPass& pass) = 0;
  // Returns a model of the family whose configuration has changed in what it shares with others.
  virtual std::unique_ptr<Model> with(const ImageModelConfig& changed, DType dtype, Device device) const = 0;

 private:
  void list(ModelParts& parts) override;
  void initialize(std::uint64_t seed);  // normalizers have set their own parameters already
  Tensor input(const NamedTensors& inputs, const char* name) const;  // on the model's device
  const Segments& rows_of(std::int64_t images);                      // the tokens of so many
  Var pixels(const Tensor& images, const ForwardPass& pass);
  Var embed(const Tensor& images, const Segments& rows, const ForwardPass& pass);  // [B T, width]
  Var pooled(const Var& x, std::int64_t images, const ForwardPass& pass);          // [B, width]

  Names names_;
  std::deque<ConvLayer> stem_;  // a deque never moves what it holds
  Parameter cls_, positions_;
  std::deque<TransformerLayer> layers_;
  std::unique_ptr<Normalizer> norm_;
  std::unique_ptr<LinearLayer> attention_pool_;
  LinearLayer head_;
  Segments rows_;  // of the last batch
};

}  // namespace foldgrad
