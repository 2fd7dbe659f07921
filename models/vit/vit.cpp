#include "models/vit/vit.h"

#include <algorithm>

#include "engine/check.h"
#include "models/fold/model.h"
#include "models/vit/init.h"
#include "ops/cast/cast.h"
#include "ops/concat/concat.h"
#include "ops/conv2d/conv2d.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/embedding/embedding.h"
#include "ops/image_input/image_input.h"
#include "ops/permute/permute.h"
#include "ops/positions/positions.h"
#include "ops/reduce/reduce.h"
#include "ops/reshape/reshape.h"

namespace foldgrad {
namespace {

const VitConfig& validated(const VitConfig& config) {
  config.validate();
  return config;
}

const Tensor& input(const NamedTensors& inputs, const char* name) {
  const auto found = inputs.find(name);
  FOLDGRAD_CHECK(found != inputs.end(), "vit: the inputs lack \"{}\"", name);
  return found->second;
}

}  // namespace

VitLayer::VitLayer(const BlockMaker& make, const std::string& name, bool qkv_bias)
    : attention(make, name + ".attn", name + ".norm1", qkv_bias),
      feed_forward(make, name + ".mlp", name + ".mlp", name + ".norm2") {}

Vit::Vit(const VitConfig& config, std::optional<std::uint64_t> seed, DType dtype, Device device)
    : Model(dtype, device),
      config_(validated(config)),
      make_{config_, dtype, device, config.layers, 0},
      head_(make_.linear("head", config.width, config.classes)) {
  const auto parameter = [&](const char* name, const Shape& shape) {
    return Parameter{name, Tensor::zeros(shape, dtype, device)};
  };
  const std::int64_t C = config.width;
  patch_weight_ = parameter("patch_embed.proj.weight", {C, kImageChannels, config.patch, config.patch});
  patch_bias_ = parameter("patch_embed.proj.bias", {C});
  if (config.has_cls()) cls_ = parameter("cls_token", {1, 1, C});
  positions_ = parameter("pos_embed", {1, config.tokens(), C});
  for (std::int64_t i = 0; i < config.layers; ++i)
    layers_.emplace_back(make_.at_layer(i, config.layers), "blocks." + std::to_string(i), config.qkv_bias);
  if (config.pre_norm) norm_ = make_.normalizer("norm");
  config_.validate_sites("vit", normalizers());
  if (seed) initialize(*this, *seed);
}

Var Vit::embed(const Tensor& images, const ForwardPass& pass) {  // [VIT-1]
  const std::int64_t S = config_.image_size, C = config_.width, B = images.shape().rank() > 0 ? images.shape()[0] : 0;
  FOLDGRAD_CHECK(images.shape() == (Shape{B, S, S, kImageChannels}), "vit: images must be [B, {}, {}, {}], got {}", S,
                 S, kImageChannels, images.shape());
  const Tape::Scope scope(pass.tape, "patch_embed");
  const Var raw = pass.tape.constant(images);
  const Var pixels = images.dtype() == DType::u8 ? image_input(raw, config_.pixels, pass.dtype) : cast(raw, pass.dtype);
  const Var W = pass.use(patch_weight_);
  const Var b = pass.use(patch_bias_);
  Var x = patch_embedding(permute(pixels, {0, 3, 1, 2}), W, b);
  if (config_.has_cls()) {
    const Var ids = pass.tape.constant(Tensor::zeros({B, 1}, DType::i64, device()));
    const Var first = gather(reshape(pass.use(cls_), {1, C}), ids);
    x = concat({first, x}, 1);
  }
  const Var placed = learned_positions(x, reshape(pass.use(positions_), {config_.tokens(), C}));
  return dropout(placed, pass.dropout(config_.dropout), pass.random(random_stream("patch_embed.dropout")));
}

Var Vit::logits(const Var& x, const ForwardPass& pass) {  // [VIT-2]
  const Tape::Scope scope(pass.tape, "head");
  if (!config_.has_cls()) return head_(mean_pool(x), pass);
  return head_(reshape(slice(x, 1, 0, 1), {x.shape()[0], config_.width}), pass);
}

Var Vit::forward(const NamedTensors& inputs, const ForwardPass& pass) {
  Var x = embed(input(inputs, "images"), pass);
  for (VitLayer& layer : layers_) {
    x = layer.attention(x, pass);
    x = layer.feed_forward(x, nullptr, pass);
  }
  return logits(norm_ ? norm_->apply(x, pass.norm(nullptr)) : x, pass);
}

Var Vit::loss(const NamedTensors& inputs, const ForwardPass& pass, double label_smoothing) {
  const CrossEntropyOptions options{.label_smoothing = label_smoothing, .reduction = Reduction::sum};
  const Var z = forward(inputs, pass), target = pass.tape.constant(input(inputs, "target"));
  if (!inputs.count("second_target")) return cross_entropy(z, target, options);
  const Var second = pass.tape.constant(input(inputs, "second_target"));
  return cross_entropy(z, target, second, pass.tape.constant(input(inputs, "share")), options);
}

std::unique_ptr<Model> Vit::alike(DType dtype, Device device) const {
  return std::make_unique<Vit>(config_, std::nullopt, dtype, device);
}

std::unique_ptr<Model> Vit::foldable() {
  // One key for all layers: with post-norm, folding would make a bias for each but the first.
  const auto has_values = [](Normalizer* n) { return !n->parameters().empty() || !n->state().empty(); };
  VitConfig config = config_;
  config.qkv_bias = config_.qkv_bias || std::ranges::any_of(normalizers(), has_values);
  config.weight_standardization = false;
  if (config == config_) return nullptr;
  auto same = std::make_unique<Vit>(config, std::nullopt, dtype(), device());
  same->restore(state());
  NamedTensors from = values();
  for (VitLayer& layer : layers_)
    for (const LinearLayer* linear : layer.linears()) from[linear->weight.name] = linear->matrix_values();
  for (const auto& [name, to] : same->values())
    if (const auto found = from.find(name); found != from.end()) to.copy_from(found->second);
  return same;
}

std::unique_ptr<Model> Vit::folded(const FoldedGraph& graph) const {
  VitConfig config = config_;
  set_normalizers_left(config, *this, graph);
  return std::make_unique<Vit>(config, std::nullopt, dtype(), device());
}

}  // namespace foldgrad
