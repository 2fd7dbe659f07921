// What a vision Transformer consists of, as lists, and inputs made up for checks.
#include <random>

#include "engine/contains.h"
#include "models/vit/vit.h"

namespace foldgrad {

std::vector<Parameter*> Vit::parameters() {
  std::vector<Parameter*> all{&patch_weight_, &patch_bias_};
  const auto append = [&all](const std::vector<Parameter*>& more) { all.insert(all.end(), more.begin(), more.end()); };
  if (config_.has_cls()) all.push_back(&cls_);
  all.push_back(&positions_);
  for (VitLayer& layer : layers_) {
    append(layer.attention.parameters());
    append(layer.feed_forward.parameters());
  }
  if (norm_) append(norm_->parameters());
  append(head_.parameters());
  return all;
}

std::vector<Parameter*> Vit::vectors() {
  std::vector<Parameter*> all = Model::vectors();
  if (!contains(all, &positions_)) all.push_back(&positions_);  // of one token they are a vector already
  return all;
}

std::vector<Normalizer*> Vit::normalizers() {
  std::vector<Normalizer*> all;
  for (VitLayer& layer : layers_)
    for (Sublayer* sublayer : {&layer.attention.sublayer, &layer.feed_forward.sublayer})
      for (Normalizer* n : sublayer->normalizers()) all.push_back(n);
  if (norm_) all.push_back(norm_.get());
  return all;
}

NamedTensors Vit::smallest_inputs() const {
  const std::int64_t S = config_.image_size;
  return {{"images", Tensor::zeros({1, S, S, kImageChannels}, dtype(), device())},
          {"target", Tensor::zeros({1}, DType::i64, device())}};
}

NamedTensors Vit::random_inputs(std::uint64_t seed) const {
  constexpr std::int64_t kImages = 8;
  const std::int64_t S = config_.image_size;
  std::mt19937_64 random(seed);
  const Tensor images = Tensor::empty({kImages, S, S, kImageChannels}, DType::f64),
               target = Tensor::empty({kImages}, DType::i64);
  std::normal_distribution<double> pixel;
  for (std::int64_t i = 0; i < images.size(); ++i) images.data<double>()[i] = pixel(random);
  for (std::int64_t i = 0; i < kImages; ++i)
    target.data<std::int64_t>()[i] = std::int64_t(random() % std::uint64_t(config_.classes));
  return to({{"images", images.to(dtype())}, {"target", target}}, device());
}

}  // namespace foldgrad
