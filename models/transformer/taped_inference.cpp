#include "models/transformer/taped_inference.h"

#include <algorithm>
#include <cmath>

#include "models/transformer/step_checks.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/attention/cached_attention.h"
#include "ops/cast/cast.h"
#include "ops/concat/concat.h"
#include "ops/embedding/embedding.h"
#include "ops/reshape/reshape.h"
#include "ops/scale_norm/scale_norm.h"

namespace foldgrad {
namespace {

class TapedDecoder final : public StepDecoder {
 public:
  TapedDecoder(Transformer& model, DType dtype, const Tensor& source, const Tensor& source_mask);

  std::int64_t steps() const override { return history_.steps(); }
  Tensor step(const std::vector<std::int64_t>& tokens, const std::vector<std::int64_t>& parents) override;

 private:
  Var embed(const std::vector<std::int64_t>& tokens);
  CachePlaces places_of_steps() const;
  CachePlaces places_of_memory() const;
  Var keys_and_values(AttentionBlock& block, const Var& x);
  Var attend(AttentionBlock& block, const Var& in, const std::vector<Tensor>& cache, const CachePlaces& places);

  Transformer& model_;
  Tape tape_{/*recording=*/false};
  ForwardPass pass_;
  std::vector<std::vector<std::int64_t>> real_;  // of each sentence, the rows of the encoder's output that are tokens
  std::vector<Tensor> memory_;                   // per layer, keys and values of the sources [B S, 2 C]
  std::vector<std::vector<Tensor>> cache_;       // [layer][step]: keys and values [rows of the step, 2 C]
  StepHistory history_;
};

TapedDecoder::TapedDecoder(Transformer& model, DType dtype, const Tensor& source, const Tensor& source_mask)
    : model_(model),
      pass_{.tape = tape_, .dtype = dtype},
      cache_(model.decoder_layers().size()),
      history_(model.config(), source.shape()[0]) {
  const std::int64_t B = source.shape()[0], S = source.shape()[1];
  const std::vector<std::uint8_t> mask = source_mask.values<std::uint8_t>();
  real_.resize(std::size_t(B));
  for (std::int64_t i = 0; i < B * S; ++i)
    if (mask[std::size_t(i)]) real_[std::size_t(i / S)].push_back(i);
  const Var encoded = model.encode(source.to(model.device()), source_mask.to(model.device()), pass_);
  const Var rows = reshape(encoded, {1, B * S, model.config().width});
  for (TransformerLayer& layer : model.decoder_layers())
    memory_.push_back(keys_and_values(*layer.cross_attention, rows).value());
}

// [1, n, C] to [n, 2 C]
Var TapedDecoder::keys_and_values(AttentionBlock& block, const Var& x) {
  const Tape::Scope scope(tape_, block.sublayer.name);
  const Var k = block.k(x, pass_);
  const Var v = block.v(x, pass_);
  return reshape(concat({k, v}, 2), {x.shape()[1], 2 * x.shape()[2]});
}

Var TapedDecoder::attend(AttentionBlock& block, const Var& in, const std::vector<Tensor>& cache,
                         const CachePlaces& places) {
  const Tape::Scope scope(tape_, block.sublayer.name);
  const Tensor q = block.q(in, pass_).value();
  return tape_.constant(
      cached_attention(q.reshape({q.shape()[1], q.shape()[2]}), cache, places, block.heads).reshape(q.shape()));
}

// All of one step have one position. [TRF-1]
Var TapedDecoder::embed(const std::vector<std::int64_t>& tokens) {
  const TransformerConfig& config = model_.config();
  const Tape::Scope scope(tape_, "decoder.embed_tokens");
  const double length = std::sqrt(double(config.width));
  const Var ids = tape_.constant(Tensor::of({1, std::int64_t(tokens.size())}, tokens, model_.device()));
  const Var rows = embedding(pass_.use(model_.target_table()), ids, config.fixnorm ? 1 : length, config.pad);
  const Var x = config.fixnorm ? scale(unit_rows(rows), length) : rows;
  const std::int64_t place = steps() + 2;  // [POS-2]
  const Tensor position = model_.positions(pass_.dtype).slice(place, place + 1);
  return add_bias(x, tape_.constant(position.reshape({config.width})));
}

CachePlaces TapedDecoder::places_of_steps() const {
  CachePlaces places;
  for (const std::vector<std::int64_t>& rows : history_.ancestors()) {
    for (std::size_t s = 0; s < rows.size(); ++s) places.add(std::int64_t(s), rows[s]);
    places.end_query();
  }
  places.upload(model_.device());
  return places;
}

CachePlaces TapedDecoder::places_of_memory() const {
  CachePlaces places;
  for (const std::int64_t sentence : history_.sentences()) {
    for (const std::int64_t row : real_[std::size_t(sentence)]) places.add(0, row);
    places.end_query();
  }
  places.upload(model_.device());
  return places;
}

Tensor TapedDecoder::step(const std::vector<std::int64_t>& tokens, const std::vector<std::int64_t>& parents) {
  history_.check(tokens, parents);
  Var x = embed(tokens);
  history_.descend(parents);
  const CachePlaces of_steps = places_of_steps(), of_memory = places_of_memory();
  std::size_t l = 0;
  for (TransformerLayer& layer : model_.decoder_layers()) {
    AttentionBlock &own = layer.self_attention, &cross = *layer.cross_attention;
    const Var in = own.sublayer.inner(x, nullptr, pass_);
    cache_[l].push_back(keys_and_values(own, in).value());
    x = own.sublayer.join(attend(own, in, cache_[l], of_steps), x, nullptr, pass_);
    const Var query = cross.sublayer.inner(x, nullptr, pass_);
    x = cross.sublayer.join(attend(cross, query, {memory_[l]}, of_memory), x, nullptr, pass_);
    x = layer.feed_forward(x, nullptr, pass_);
    ++l;
  }
  if (Normalizer* norm = model_.decoder_norm()) x = norm->apply(x, pass_.norm(nullptr));
  const Var logits = cast(model_.logits(x, pass_), pass_.dtype == DType::f64 ? DType::f64 : DType::f32);
  return logits.value().reshape({std::int64_t(tokens.size()), model_.config().target_vocabulary});
}

class TapedInference final : public InferenceTransformer {
 public:
  TapedInference(Transformer& model, DType dtype) : model_(model), dtype_(dtype) {}

  const TransformerConfig& config() const override { return model_.config(); }

  Tensor encode(const Tensor& source, const Tensor& source_mask) const override {
    check_sources(config(), source, source_mask);
    Tape tape(/*recording=*/false);
    const Var x =
        model_.encode(source.to(model_.device()), source_mask.to(model_.device()), {.tape = tape, .dtype = dtype_});
    std::vector<std::int64_t> real;
    const std::vector<std::uint8_t> mask = source_mask.values<std::uint8_t>();
    for (std::size_t i = 0; i < mask.size(); ++i)
      if (mask[i]) real.push_back(std::int64_t(i));
    const Var rows = tape.constant(Tensor::of({std::int64_t(real.size())}, real, model_.device()));
    return gather(reshape(x, {source.size(), config().width}), rows).value();
  }

  std::unique_ptr<StepDecoder> decoder(const Tensor& source, const Tensor& source_mask) const override {
    check_sources(config(), source, source_mask);
    require_known_tokens(model_);
    return std::make_unique<TapedDecoder>(model_, dtype_, source, source_mask);
  }

 private:
  Transformer& model_;
  DType dtype_;
};

}  // namespace

std::unique_ptr<InferenceTransformer> make_taped_inference(Transformer& model, DType dtype) {
  return std::make_unique<TapedInference>(model, dtype);
}

}  // namespace foldgrad
