#include "models/images/model.h"

#include <random>
#include <utility>

#include "engine/check.h"
#include "models/fold/model.h"
#include "ops/cast/cast.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/reshape/reshape.h"
#include "ops/weighted_pool/weighted_pool.h"

namespace foldgrad {

ImageModel::ImageModel(const ImageModelConfig& config, const Names& names, const Shape& features, DType dtype,
                       Device device)
    : Model(dtype, device),
      names_(names),
      head_(names.head, features[1], config.classes, dtype, device),
      features_(features) {
  if (config.pre_norm) norm_ = BlockMaker{config, dtype, device, 0, 0}.normalizer(names.norm, features[1]);
}

ConvLayer ImageModel::make_conv(const std::string& name, const Shape& shape, bool with_bias) const {
  const Tensor bias = with_bias ? Tensor::zeros({shape[0]}, dtype(), device()) : Tensor();
  return {{name + ".weight", Tensor::zeros(shape, dtype(), device())}, {name + ".bias", bias}, nullptr};
}

ConvLayer& ImageModel::add_conv(const std::string& name, const Shape& shape, bool with_bias) {
  return stem_.emplace_back(make_conv(name, shape, with_bias));
}

void ImageModel::finish(std::optional<std::uint64_t> seed) {
  config().validate_sites(family(), normalizers());
  if (seed) initialize(*seed);
}

Var ImageModel::pixels(const Tensor& images, const ForwardPass& pass) {
  const std::int64_t S = config().image_size, B = images.shape().rank() > 0 ? images.shape()[0] : 0;
  FOLDGRAD_CHECK(images.shape() == (Shape{B, S, S, kImageChannels}), "{}: images must be [B, {}, {}, {}], got {}",
                 family(), S, S, kImageChannels, images.shape());
  const Tape::Scope scope(pass.tape, names_.stem);
  const Var raw = pass.tape.constant(images);
  return images.dtype() == DType::u8 ? image_input(raw, config().pixels, pass.dtype) : cast(raw, pass.dtype);
}

Tensor ImageModel::input(const NamedTensors& inputs, const char* name) const {
  const auto found = inputs.find(name);
  FOLDGRAD_CHECK(found != inputs.end(), "{}: the input \"{}\" is missing", family(), name);
  return found->second.to(device());
}

Var ImageModel::pooled(const Var& x, std::int64_t images, const ForwardPass&) {
  return mean_pool(reshape(x, {images, features_[0], features_[1]}));
}

Segments ImageModel::segments(std::int64_t count, std::int64_t length, const ForwardPass& pass) {
  auto [found, is_new] = segments_.try_emplace({count, length});
  if (is_new) found->second = Segments::equal(count, length).to(device());
  return found->second.among(pass.communicator);
}

Var ImageModel::forward(const NamedTensors& inputs, const ForwardPass& pass) {  // [VIT-2]
  const Tensor images = input(inputs, "images");
  const Var in = pixels(images, pass);
  const std::int64_t B = in.shape()[0];
  if (std::exchange(images_, B) != B) segments_.clear();
  Var x = features(in, pass);
  const auto normalized = [&](std::int64_t rows) { return norm_->apply(x, pass.norm(segments(B, rows, pass))); };
  if (norm_ && !config().fc_norm) x = normalized(features_[0]);
  {
    const Tape::Scope scope(pass.tape, names_.head);
    x = pooled(x, B, pass);
  }
  if (config().fc_norm) x = normalized(1);
  const Tape::Scope scope(pass.tape, names_.head);
  return head_(x, pass);
}

Var ImageModel::loss_of(const Var& logits, const NamedTensors& inputs, double label_smoothing) {
  const CrossEntropyOptions options{.label_smoothing = label_smoothing, .reduction = Reduction::sum};
  Tape& tape = logits.tape();
  const Var target = tape.constant(input(inputs, "target"));
  if (!inputs.count("second_target")) return cross_entropy(logits, target, options);
  const Var second = tape.constant(input(inputs, "second_target"));
  return cross_entropy(logits, target, second, tape.constant(input(inputs, "share")), options);
}

std::unique_ptr<Model> ImageModel::alike(DType dtype, Device device, const FoldedGraph* folded) const {
  const Change left = [&](ImageModelConfig& changed) {
    if (folded) set_normalizers_left(changed, *this, *folded);
  };
  return with(left, dtype, device);
}

std::unique_ptr<ImageModel> ImageModel::altered(const Change& change, const NamedTensors& from) const {
  std::unique_ptr<ImageModel> changed = with(change, dtype(), device());
  changed->restore(state());
  for (auto&& [name, to] : changed->values())
    if (const auto found = from.find(name); found != from.end()) to.copy_from(found->second);
  return changed;
}

void ImageModel::list_head(ModelParts& parts, LinearLayer* pool) {
  parts.add(norm_, pool, head_);
  parts.output = {&head_.weight, &head_.bias};
}

NamedTensors ImageModel::smallest_inputs() const {
  const std::int64_t S = config().image_size;
  return {{"images", Tensor::zeros({1, S, S, kImageChannels}, dtype(), device())},
          {"target", Tensor::zeros({1}, DType::i64, device())}};
}

NamedTensors ImageModel::random_inputs(std::uint64_t seed) const {
  constexpr std::int64_t kImages = 8;
  const std::int64_t S = config().image_size;
  std::mt19937_64 random(seed);
  const Tensor images = Tensor::empty({kImages, S, S, kImageChannels}, DType::f64),
               target = Tensor::empty({kImages}, DType::i64);
  std::normal_distribution<double> pixel;
  for (std::int64_t i = 0; i < images.size(); ++i) images.data<double>()[i] = pixel(random);
  for (std::int64_t i = 0; i < kImages; ++i)
    target.data<std::int64_t>()[i] = std::int64_t(random() % std::uint64_t(config().classes));
  return to({{"images", images.to(dtype())}, {"target", target}}, device());
}

}  // namespace foldgrad
