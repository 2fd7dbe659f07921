// The common part of image classifiers. A family derives from ImageFamily, whose base is ImageModel, or TokenModel
// (token_model.h) if the family's layers keep the number of tokens. A model computes a loss:
//
//   Vit model(config, seed);
//   Var loss = model.loss({{"images", images}, {"target", target}}, {.tape = tape, .dtype = DType::f32}, 0.1);
//
//   [VIT-2]  logits = head(pool(norm(features(images)))); with fc_norm head(norm(pool(...)))
//
//   A family provides features and may replace pool, which is the mean over all positions. Post-norm models have no
//   norm. The inputs are "images", [B, S, S, 3] with S = image_size, as bytes or normalized with config().pixels, and
//   "target", i64 [B], the classes. Mixed images also have "second_target", i64 [B], and "share", f32 [B], the share of
//   the first class [CE-5].
#pragma once
#include <deque>

#include "models/blocks/layers.h"
#include "models/images/config.h"
#include "models/model.h"

namespace foldgrad {

class OnnxGraph;  // defined in engine/graph/onnx_graph.h

// A convolution and its normalizer.
struct ConvLayer {
  Parameter weight, bias;            // [out, in, K, K], [out]; the bias's value may be undefined
  std::unique_ptr<Normalizer> norm;  // null if there is none

  void list(ModelParts& parts) { parts.add(weight, bias, norm); }
};

// Adds nodes that cut pixels [batch, 3, S, S] into patches [batch, tokens, 3 P P]. As in unfold(), the order within a
// patch is channel, row, column.
std::string onnx_patches(OnnxGraph& g, const std::string& pixels, std::int64_t image_size, std::int64_t patch);

class ImageModel : public Model {
 public:
  virtual const ImageModelConfig& config() const = 0;

  // Throws std::invalid_argument if the images do not have the shape given by config().
  Var forward(const NamedTensors& inputs, const ForwardPass& pass) override;
  Var loss_of(const Var& logits, const NamedTensors& inputs, double label_smoothing) override;
  NamedTensors smallest_inputs() const override;
  // Returns eight images of normally distributed pixels.
  NamedTensors random_inputs(std::uint64_t seed) const override;
  std::unique_ptr<Model> alike(DType dtype, Device device, const FoldedGraph* folded) const override;
  // Writes model.onnx, which maps normalized pixel_values [batch, 3, S, S] to logits [batch, classes].
  std::vector<std::string> write_onnx(const std::string& directory) override;
  // Adds to an ONNX graph the nodes that turn the pixels, [batch, 3, S, S], into the operand of the first operation of
  // features(). By default, these nodes make the pixels channels-last.
  virtual std::string onnx_stem(OnnxGraph& g, const std::string& pixels) const;

  // Parts of the model.
  std::deque<ConvLayer>& stem() { return stem_; }
  Normalizer* norm() { return norm_.get(); }  // null with post-norm
  LinearLayer& head() { return head_; }

 protected:
  struct Names {
    std::string stem, norm, head;
  };
  // Makes the last normalizer and the head. `features` is [T, channels], the shape of one image's features.
  ImageModel(const ImageModelConfig& config, const Names& names, const Shape& features, DType dtype, Device device);

  // Makes a convolution with a weight of shape [out, in, kernel, kernel]. All its parameters are 0.
  ConvLayer make_conv(const std::string& name, const Shape& shape, bool with_bias) const;
  // Makes a convolution and adds it to the stem. A family's constructor calls this function.
  ConvLayer& add_conv(const std::string& name, const Shape& shape, bool with_bias);
  // Initializes the model if there is a seed; a family's constructor must call it last. Throws std::invalid_argument if
  // normalizer_at names a site that does not exist.
  void finish(std::optional<std::uint64_t> seed);
  // Adds the last normalizer, the pool's layer and the head.
  void list_head(ModelParts& parts, LinearLayer* pool = nullptr);

  // Returns features [B T, channels] of pixels [B, S, S, 3].
  virtual Var features(const Var& pixels, const ForwardPass& pass) = 0;
  virtual Var pooled(const Var& x, std::int64_t images, const ForwardPass& pass);  // [B T, channels] -> [B, channels]
  virtual void initialize(std::uint64_t seed) = 0;  // leaves the normalizers' parameters as they are
  using Change = std::function<void(ImageModelConfig&)>;
  // Applies `change` to a copy of the configuration, and returns a model of the same family with that configuration.
  // All its parameters are 0.
  virtual std::unique_ptr<ImageModel> with(const Change& change, DType dtype, Device device) const = 0;
  // Returns the result of with(change), with this model's state and the parameter values that `from` contains.
  std::unique_ptr<ImageModel> altered(const Change& change, const NamedTensors& from) const;

  // Returns `count` segments of `length` rows, on the model's device, with their position among all ranks' segments.
  Segments segments(std::int64_t count, std::int64_t length, const ForwardPass& pass);
  const std::string& stem_scope() const { return names_.stem; }
  std::int64_t rows_of_image() const { return features_[0]; }  // T, the number of rows per image

 private:
  Tensor input(const NamedTensors& inputs, const char* name) const;  // returns a tensor on the model's device
  Var pixels(const Tensor& images, const ForwardPass& pass);

  Names names_;
  std::deque<ConvLayer> stem_;  // a deque never moves its elements
  std::unique_ptr<Normalizer> norm_;
  LinearLayer head_;
  Shape features_;
  std::int64_t images_ = 0;                                             // number of images in the last batch
  std::map<std::pair<std::int64_t, std::int64_t>, Segments> segments_;  // segments for that batch, by count and length
};

// The base class of a family's model M. Adds the family's configuration to Base, which is ImageModel or TokenModel.
//
// M(config, seed, dtype, device) has parameters of `dtype`. Without a seed, the parameters that initialize() would fill
// are 0 until values are copied into them. Throws std::invalid_argument for a configuration that config.validate() or
// make_normalizer refuses.
template <class M, class Configuration, class Base = ImageModel>
class ImageFamily : public Base {
 public:
  using Config = Configuration;

  const Config& config() const override { return config_; }

 protected:
  // Passes all arguments to Base.
  ImageFamily(const Config& config, const typename Base::Names& names, const auto& size, DType dtype, Device device)
      : Base(config, names, size, dtype, device), config_(config) {}

  std::unique_ptr<ImageModel> with(const ImageModel::Change& change, DType dtype, Device device) const override {
    Config changed = config_;
    change(changed);
    return std::make_unique<M>(changed, std::nullopt, dtype, device);
  }

  const Config config_;
};

}  // namespace foldgrad
