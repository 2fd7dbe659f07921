#include "models/images/model.h"

#include <algorithm>
#include <random>

#include "engine/check.h"
#include "models/fold/model.h"
#include "ops/cast/cast.h"
#include "ops/concat/concat.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/embedding/embedding.h"
#include "ops/positions/positions.h"
#include "ops/reshape/reshape.h"
#include "ops/softmax/softmax.h"
#include "ops/weighted_pool/weighted_pool.h"

namespace foldgrad {

ImageModel::ImageModel(const ImageModelConfig& config, const Names& names, std::int64_t tokens, DType dtype,
                       Device device)
    : Model(dtype, device),
      names_(names),
      positions_{names.positions, Tensor::zeros({1, tokens, config.width}, dtype, device)},
      head_(names.head, config.width, config.classes, dtype, device) {
  if (config.has_cls()) cls_ = {names.cls, Tensor::zeros({1, 1, config.width}, dtype, device)};
  if (config.pre_norm) norm_ = BlockMaker{config, dtype, device, config.layers, 0}.normalizer(names.norm);
  if (config.pooling == "sequence")
    attention_pool_ = std::make_unique<LinearLayer>(names.attention_pool, config.width, 1, dtype, device);
}

ConvLayer& ImageModel::add_conv(const std::string& name, const Shape& shape, bool with_bias) {
  Tensor bias = with_bias ? Tensor::zeros({shape[0]}, dtype(), device()) : Tensor();
  stem_.push_back({{name + ".weight", Tensor::zeros(shape, dtype(), device())}, {name + ".bias", bias}, nullptr});
  return stem_.back();
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

Var ImageModel::embed(const Tensor& images, const Segments& rows, const ForwardPass& pass) {  // [VIT-1]
  const std::int64_t C = config().width;
  const Var in = pixels(images, pass);
  Var x = tokens(in, pass);
  const Tape::Scope scope(pass.tape, names_.stem);
  if (config().has_cls()) {
    const Var ids = pass.tape.constant(Tensor::zeros({x.shape()[0], 1}, DType::i64, device()));
    const Var first = gather(reshape(pass.use(cls_), {1, C}), ids);
    x = concat({first, x}, 1);
  }
  const std::int64_t B = x.shape()[0], T = x.shape()[1];
  const Var placed = learned_positions(x, reshape(pass.use(positions_), {T, C}));
  return dropout(reshape(placed, {B * T, C}), pass.dropout(config().dropout),
                 pass.random(random_stream(names_.stem + ".dropout"), rows.first_row(), C));
}

Var ImageModel::pooled(const Var& x, std::int64_t images, const ForwardPass& pass) {
  const std::int64_t B = images, T = positions_.value.shape()[1], C = config().width;
  const auto tokens = [&] { return reshape(x, {B, T, C}); };
  if (config().has_cls()) return reshape(slice(tokens(), 1, 0, 1), {B, C});  // [VIT-2]
  if (!attention_pool_) return mean_pool(tokens());
  const Var scores = (*attention_pool_)(x, pass);
  const Var weights = softmax(reshape(scores, {B, T}));
  return weighted_pool(tokens(), weights);  // [CCT-3]
}

Tensor ImageModel::input(const NamedTensors& inputs, const char* name) const {
  const auto found = inputs.find(name);
  FOLDGRAD_CHECK(found != inputs.end(), "{}: the inputs lack \"{}\"", family(), name);
  return found->second.to(device());
}

const Segments& ImageModel::rows_of(std::int64_t images) {
  if (rows_.count() != images || rows_.device() != device())
    rows_ = Segments::equal(images, positions_.value.shape()[1]).to(device());
  return rows_;
}

Var ImageModel::forward(const NamedTensors& inputs, const ForwardPass& pass) {
  const Tensor images = input(inputs, "images");
  const std::int64_t count = images.shape().rank() > 0 ? images.shape()[0] : 0;
  const Segments rows = rows_of(count).among(pass.communicator);
  Var x = embed(images, rows, pass);
  const Attend to_all = [&](AttentionBlock& block, const Var& in) {
    return block.attend(in, rows, /*causal=*/false, pass);
  };
  for (TransformerLayer& layer : layers_) x = layer(std::move(x), rows, to_all, pass);
  if (norm_) x = norm_->apply(x, pass.norm(rows));
  const Tape::Scope scope(pass.tape, names_.head);
  const Var classes = pooled(x, count, pass);
  return head_(classes, pass);
}

Var ImageModel::loss_of(const Var& logits, const NamedTensors& inputs, double label_smoothing) {
  const CrossEntropyOptions options{.label_smoothing = label_smoothing, .reduction = Reduction::sum};
  Tape& tape = logits.tape();
  const Var target = tape.constant(input(inputs, "target"));
  if (!inputs.count("second_target")) return cross_entropy(logits, target, options);
  const Var second = tape.constant(input(inputs, "second_target"));
  return cross_entropy(logits, target, second, tape.constant(input(inputs, "share")), options);
}

std::unique_ptr<Model> ImageModel::foldable() {
  // One key for all layers: with post-norm, folding would make a bias for each layer except the first.
  const auto has_values = [](Normalizer* n) { return !n->parameters().empty() || !n->state().empty(); };
  ImageModelConfig changed = config();
  changed.qkv_bias = config().qkv_bias || std::ranges::any_of(normalizers(), has_values);
  changed.weight_standardization = false;
  if (changed == config()) return nullptr;
  std::unique_ptr<Model> same = with(changed, dtype(), device());
  same->restore(state());
  NamedTensors from = values();
  for (const TransformerLayer& layer : layers_)
    for (const LinearLayer* linear : {&layer.self_attention.qkv[0], &layer.self_attention.sublayer.out,
                                      &layer.feed_forward.fc1, &layer.feed_forward.sublayer.out})
      from[linear->weight.name] = linear->matrix_values();
  for (auto&& [name, to] : same->values())
    if (const auto found = from.find(name); found != from.end()) to.copy_from(found->second);
  return same;
}

std::unique_ptr<Model> ImageModel::alike(DType dtype, Device device, const FoldedGraph* folded) const {
  ImageModelConfig changed = config();
  if (folded) set_normalizers_left(changed, *this, *folded);
  return with(changed, dtype, device);
}

void ImageModel::list(ModelParts& parts) {
  for (ConvLayer& conv : stem_) {
    parts.add(conv.weight);
    parts.add(conv.bias);
    parts.add(conv.norm);
  }
  parts.add(cls_);
  parts.add(positions_);
  for (TransformerLayer& layer : layers_) layer.list(parts);
  parts.add(norm_);
  if (attention_pool_) attention_pool_->list(parts);
  head_.list(parts);
  parts.added = {&cls_, &positions_};
  ModelParts head;
  head_.list(head);
  parts.output = head.parameters;
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
