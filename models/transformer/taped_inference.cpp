#include "models/transformer/taped_inference.h"

#include <algorithm>
#include <map>

#include "models/transformer/step_checks.h"
#include "ops/attention/cached_attention.h"
#include "ops/cast/cast.h"
#include "ops/concat/concat.h"

namespace foldgrad {
namespace {

class TapedDecoder final : public StepDecoder {
 public:
  TapedDecoder(Transformer& model, DType dtype, const Tensor& source, const Tensor& source_mask);

  std::int64_t steps() const override { return history_.steps(); }
  Tensor step(const std::vector<std::int64_t>& tokens, const std::vector<std::int64_t>& parents) override;

 private:
  CachePlaces places_of_steps() const;
  CachePlaces places_of_memory() const;
  Tensor keys_and_values(AttentionBlock& block, const Var& x);
  Var attend(AttentionBlock& block, const Var& in, const std::vector<Tensor>& cache, const CachePlaces& places);

  Transformer& model_;
  Tape tape_{/*recording=*/false};
  ForwardPass pass_;
  Segments sources_;
  std::map<const AttentionBlock*, std::vector<Tensor>> cache_;  // keys and values [rows, 2 C]: of steps, of the sources
  StepHistory history_;
};

TapedDecoder::TapedDecoder(Transformer& model, DType dtype, const Tensor& source, const Tensor& source_mask)
    : model_(model), pass_{.tape = tape_, .dtype = dtype}, history_(model.config(), source.shape()[0]) {
  const Sentences sentences = model.sentences("encoder", source, source_mask, pass_);
  const Var encoded = model.encode(sentences, pass_);
  sources_ = sentences.rows;
  for (TransformerLayer& layer : model.decoder_layers()) {
    AttentionBlock& block = *layer.cross_attention;
    const Tape::Scope scope(tape_, block.sublayer.name);
    cache_[&block].push_back(keys_and_values(block, encoded));
  }
}

Tensor TapedDecoder::keys_and_values(AttentionBlock& block, const Var& x) {
  const Var k = block.k(x, pass_);
  const Var v = block.v(x, pass_);
  return concat({k, v}, 1).value();
}

Var TapedDecoder::attend(AttentionBlock& block, const Var& in, const std::vector<Tensor>& cache,
                         const CachePlaces& places) {
  return tape_.constant(cached_attention(block.q(in, pass_).value(), cache, places, block.heads));
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
  for (const std::int64_t s : history_.sentences()) {
    for (std::int64_t i = 0; i < sources_.length(s); ++i) places.add(0, sources_.offset(s) + i);
    places.end_query();
  }
  places.upload(model_.device());
  return places;
}

Tensor TapedDecoder::step(const std::vector<std::int64_t>& tokens, const std::vector<std::int64_t>& parents) {
  history_.check(tokens, parents);
  const std::int64_t n = std::int64_t(tokens.size());
  const std::vector<std::int64_t> place(tokens.size(), steps());
  history_.descend(parents);
  const CachePlaces of_steps = places_of_steps(), of_memory = places_of_memory();
  const Attend own = [&](AttentionBlock& block, const Var& in) {
    std::vector<Tensor>& cache = cache_[&block];
    cache.push_back(keys_and_values(block, in));
    return attend(block, in, cache, of_steps);
  };
  const Attend cross = [&](AttentionBlock& block, const Var& in) {
    return attend(block, in, cache_.at(&block), of_memory);
  };
  const Tensor ids = Tensor::of({n}, tokens, model_.device());
  const Var x = model_.embed_target(ids, Tensor::of({n}, place), pass_);
  const Var hidden = model_.decode(x, Segments::equal(n, 1).to(model_.device()), own, cross, pass_);
  return cast(model_.logits(hidden, pass_), pass_.dtype == DType::f64 ? DType::f64 : DType::f32).value();
}

class TapedInference final : public InferenceTransformer {
 public:
  TapedInference(Transformer& model, DType dtype) : model_(model), dtype_(dtype) {}

  const TransformerConfig& config() const override { return model_.config(); }

  Tensor encode(const Tensor& source, const Tensor& source_mask) const override {
    source_sentences(config(), source, source_mask);  // for its checks
    Tape tape(/*recording=*/false);
    const ForwardPass pass{.tape = tape, .dtype = dtype_};
    const Sentences sentences = model_.sentences("encoder", source, source_mask, pass);
    return model_.tokens_of(model_.encode(sentences, pass), sentences.rows, pass).value();
  }

  std::unique_ptr<StepDecoder> decoder(const Tensor& source, const Tensor& source_mask) const override {
    source_sentences(config(), source, source_mask);  // for its checks
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
