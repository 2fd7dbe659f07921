#include "models/images/token_model.h"

#include <algorithm>

#include "ops/concat/concat.h"
#include "ops/embedding/embedding.h"
#include "ops/positions/positions.h"
#include "ops/reshape/reshape.h"
#include "ops/softmax/softmax.h"
#include "ops/weighted_pool/weighted_pool.h"

namespace foldgrad {

TokenModel::TokenModel(const TokenModelConfig& config, const Names& names, std::int64_t tokens, DType dtype,
                       Device device)
    : ImageModel(config, {names.stem, names.norm, names.head}, {tokens, config.width}, dtype, device),
      positions_{names.positions, Tensor::zeros({1, tokens, config.width}, dtype, device)} {
  if (config.has_cls()) cls_ = {names.cls, Tensor::zeros({1, 1, config.width}, dtype, device)};
  if (config.pooling == "sequence")
    attention_pool_ = std::make_unique<LinearLayer>(names.attention_pool, config.width, 1, dtype, device);
}

Var TokenModel::embed(const Var& pixels, const Segments& rows, const ForwardPass& pass) {  // [VIT-1]
  const std::int64_t C = config().width;
  Var x = tokens(pixels, pass);
  const Tape::Scope scope(pass.tape, stem_scope());
  if (config().has_cls()) {
    const Var ids = pass.tape.constant(Tensor::zeros({x.shape()[0], 1}, DType::i64, device()));
    const Var first = gather(reshape(pass.use(cls_), {1, C}), ids);
    x = concat({first, x}, 1);
  }
  const std::int64_t B = x.shape()[0], T = x.shape()[1];
  const Var placed = learned_positions(x, reshape(pass.use(positions_), {T, C}));
  return dropout(reshape(placed, {B * T, C}), pass.dropout(config().dropout),
                 pass.random(random_stream(stem_scope() + ".dropout"), rows.first_row(), C));
}

Var TokenModel::features(const Var& pixels, const ForwardPass& pass) {
  const Segments rows = segments(pixels.shape()[0], rows_of_image(), pass);
  Var x = embed(pixels, rows, pass);
  const Attend to_all = [&](AttentionBlock& block, const Var& in) {
    return block.attend(in, rows, /*causal=*/false, pass);
  };
  for (TransformerLayer& layer : layers_) x = layer(std::move(x), rows, to_all, pass);
  return x;
}

Var TokenModel::pooled(const Var& x, std::int64_t images, const ForwardPass& pass) {
  if (config().pooling == "mean") return ImageModel::pooled(x, images, pass);
  const std::int64_t B = images, T = rows_of_image(), C = config().width;
  const auto tokens = [&] { return reshape(x, {B, T, C}); };
  if (config().has_cls()) return reshape(slice(tokens(), 1, 0, 1), {B, C});
  const Var scores = (*attention_pool_)(x, pass);
  const Var weights = softmax(reshape(scores, {B, T}));
  return weighted_pool(tokens(), weights);  // [CCT-3]
}

std::unique_ptr<Model> TokenModel::foldable() {
  // `qkv_bias` applies to all layers, although folding a post-norm model needs no bias in the first one.
  const auto has_values = [](Normalizer* n) { return !n->parameters().empty() || !n->state().empty(); };
  const bool qkv_bias = config().qkv_bias || std::ranges::any_of(normalizers(), has_values);
  if (qkv_bias == config().qkv_bias && !config().weight_standardization) return nullptr;
  NamedTensors from = values();
  for (const TransformerLayer& layer : layers_)
    for (const LinearLayer* linear : {&layer.self_attention.qkv[0], &layer.self_attention.sublayer.out,
                                      &layer.feed_forward.fc1, &layer.feed_forward.sublayer.out})
      from[linear->weight.name] = linear->matrix_values();
  const Change change = [&](ImageModelConfig& changed) {
    static_cast<TokenModelConfig&>(changed).qkv_bias = qkv_bias;
    changed.weight_standardization = false;
  };
  return altered(change, from);
}

void TokenModel::list(ModelParts& parts) {
  parts.add(stem(), cls_, positions_, layers_);
  list_head(parts, attention_pool_.get());
  parts.added = {&cls_, &positions_};
}

}  // namespace foldgrad
