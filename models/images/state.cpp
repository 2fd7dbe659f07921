// Parameters and normalizers of an image model, as lists, and inputs made up for checks.
#include <random>

#include "engine/contains.h"
#include "models/images/model.h"

namespace foldgrad {
namespace {

template <class T>
void append(std::vector<T*>& all, const std::vector<T*>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

}  // namespace

std::vector<Parameter*> ConvLayer::parameters() {
  std::vector<Parameter*> all{&weight};
  if (bias.value.defined()) all.push_back(&bias);
  if (norm) append(all, norm->parameters());
  return all;
}

std::vector<Parameter*> ImageModel::parameters() {
  std::vector<Parameter*> all;
  for (ConvLayer& conv : stem_) append(all, conv.parameters());
  if (cls()) all.push_back(&cls_);
  all.push_back(&positions_);
  for (ImageLayer& layer : layers_) {
    append(all, layer.attention.parameters());
    append(all, layer.feed_forward.parameters());
  }
  if (norm_) append(all, norm_->parameters());
  if (attention_pool_) append(all, attention_pool_->parameters());
  append(all, head_.parameters());
  return all;
}

std::vector<Parameter*> ImageModel::vectors() {
  std::vector<Parameter*> all = Model::vectors();
  if (!contains(all, &positions_)) all.push_back(&positions_);  // of one token they are a vector already
  return all;
}

std::vector<Normalizer*> ImageModel::normalizers() {
  std::vector<Normalizer*> all;
  for (ConvLayer& conv : stem_)
    if (conv.norm) all.push_back(conv.norm.get());
  for (ImageLayer& layer : layers_)
    for (Sublayer* sublayer : {&layer.attention.sublayer, &layer.feed_forward.sublayer})
      append(all, sublayer->normalizers());
  if (norm_) all.push_back(norm_.get());
  return all;
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
