#include "models/transformer/inference.h"

#include <numeric>
#include <span>
#include <unordered_map>

#include "ops/cast/cast.h"
#include "ops/embedding/embedding.h"

namespace foldgrad {

InferenceTransformer::InferenceTransformer(Transformer& model)
    : InferenceTransformer(model, model.dtype() == DType::f64 ? DType::f64 : DType::f32) {}

InferenceTransformer::InferenceTransformer(Transformer& model, DType dtype)
    : model_(model), precision_("inference", model, dtype) {}

Sentences InferenceTransformer::checked(const Sentences& sources, const ForwardPass& pass) const {
  FOLDGRAD_CHECK(sources.ids.device() == Device::cpu, "inference: sources must be on cpu, got a source on {}",
                 name(sources.ids.device()));
  for (const std::int64_t id : sources.ids.values<std::int64_t>())
    FOLDGRAD_CHECK(id >= 0 && id < config().source_vocabulary, "inference: ids must be in [0, {}), got {}",
                   config().source_vocabulary, id);
  return model_.placed("inference", sources, pass);
}

Tensor InferenceTransformer::encode(const Sentences& sources) const {
  Tape tape(/*recording=*/false);
  const ForwardPass pass = precision_.pass(tape);
  return cast(model_.encode(checked(sources, pass), pass), precision_.dtype()).value();
}

StepDecoder::StepDecoder(const InferenceTransformer& inference, const Sentences& sources)
    : model_(inference.model_), pass_(inference.precision_.pass(tape_)) {
  for (const Normalizer* norm : model_.normalizers())
    FOLDGRAD_CHECK(
        !norm->mixes_tokens(),
        "decoding: {} ({}) computes statistics over all tokens of a sentence, but later tokens are not known yet",
        norm->site(), norm->info().name);
  const Sentences in = inference.checked(sources, pass_);
  const Var memory = cast(model_.encode(in, pass_), inference.precision_.dtype());
  sources_ = in.rows;
  sentences_.resize(std::size_t(sources_.count()));
  std::iota(sentences_.begin(), sentences_.end(), std::int64_t(0));
  ancestors_.resize(sentences_.size());
  for (TransformerLayer& layer : model_.decoder_layers()) {
    AttentionBlock& block = *layer.cross_attention;
    const Tape::Scope scope(tape_, block.sublayer.name);
    cache_[&block].push_back(side_by_side(std::span(block.qkv).subspan(1), memory, pass_).value());
  }
}

void StepDecoder::check(const std::vector<std::int64_t>& tokens, const std::vector<std::int64_t>& parents) const {
  const TransformerConfig& config = model_.config();
  FOLDGRAD_CHECK(tokens.size() == parents.size(), "decoding: each token needs one parent, got {} parents for {} tokens",
                 parents.size(), tokens.size());
  FOLDGRAD_CHECK(steps_ < config.max_positions, "decoding: there must be at most max_positions = {} steps",
                 config.max_positions);
  for (std::size_t r = 0; r < parents.size(); ++r) {
    FOLDGRAD_CHECK(parents[r] >= 0 && parents[r] < std::int64_t(sentences_.size()),
                   "decoding: parents must be in [0, {}), got {} for row {}", sentences_.size(), parents[r], r);
    FOLDGRAD_CHECK(tokens[r] >= 0 && tokens[r] < config.target_vocabulary,
                   "decoding: tokens must be in [0, {}), got {} for row {}", config.target_vocabulary, tokens[r], r);
  }
}

void StepDecoder::descend(const std::vector<std::int64_t>& parents) {
  std::vector<std::int64_t> sentences;
  std::vector<std::vector<std::int64_t>> ancestors;
  for (std::size_t r = 0; r < parents.size(); ++r) {
    sentences.push_back(sentences_[std::size_t(parents[r])]);
    ancestors.push_back(ancestors_[std::size_t(parents[r])]);
    ancestors.back().push_back(std::int64_t(r));
  }
  sentences_ = std::move(sentences);
  ancestors_ = std::move(ancestors);
  ++steps_;
}

CachePlaces StepDecoder::places_of_steps() const {
  CachePlaces places;
  for (const std::vector<std::int64_t>& rows : ancestors_) {
    for (std::size_t s = 0; s < rows.size(); ++s) places.add(std::int64_t(s), rows[s]);
    places.end_query();
  }
  places.upload(model_.device());
  return places;
}

CachePlaces StepDecoder::places_of_memory() const {
  CachePlaces places;
  for (const std::int64_t s : sentences_) {
    for (std::int64_t i = 0; i < sources_.length(s); ++i) places.add(0, sources_.offset(s) + i);
    places.end_query();
  }
  places.upload(model_.device());
  return places;
}

// Returns each row's query, key and value in one row. In the first layer, rows with the same token are still equal. The
// hypotheses of a beam usually end in the same few tokens, so only a fraction of the product has to be computed.
Var StepDecoder::projected(AttentionBlock& block, const Var& in, const std::vector<std::int64_t>& tokens) const {
  std::unordered_map<std::int64_t, std::int64_t> row_of;
  std::vector<std::int64_t> firsts, rows;  // the first row with each token; for each row, its token's index in `firsts`
  if (&block == &model_.decoder_layers()[0].self_attention)
    for (std::size_t r = 0; r < tokens.size(); ++r) {
      const auto [row, is_new] = row_of.try_emplace(tokens[r], std::int64_t(firsts.size()));
      if (is_new) firsts.push_back(std::int64_t(r));
      rows.push_back(row->second);
    }
  // oneDNN compiles a kernel for each number of rows, so we pad to multiples of 32.
  constexpr std::size_t kWhole = 32;
  firsts.resize((firsts.size() + kWhole - 1) / kWhole * kWhole);
  if (firsts.empty() || firsts.size() >= tokens.size()) return side_by_side(block.qkv, in, pass_);
  const auto ids = [&](const std::vector<std::int64_t>& all) {
    return pass_.tape.constant(Tensor::of({std::int64_t(all.size())}, all, model_.device()));
  };
  return gather(side_by_side(block.qkv, gather(in, ids(firsts)), pass_), ids(rows));
}

Tensor StepDecoder::step(const std::vector<std::int64_t>& tokens, const std::vector<std::int64_t>& parents) {
  check(tokens, parents);
  const std::int64_t n = std::int64_t(tokens.size());
  const Tensor ids = Tensor::of({n}, tokens, model_.device()),
               place = Tensor::of({n}, std::vector<std::int64_t>(tokens.size(), steps_));
  descend(parents);
  const CachePlaces of_steps = places_of_steps(), of_memory = places_of_memory();
  const auto attend = [&](AttentionBlock& block, const Var& q, const CachePlaces& places) {
    return tape_.constant(
        cached_attention(q.value(), cache_.at(&block), places, block.heads, model_.config().width / block.heads));
  };
  const Attend own = [&](AttentionBlock& block, const Var& in) {
    const Var qkv = projected(block, in, tokens);
    cache_[&block].push_back(qkv.value());
    return attend(block, qkv, of_steps);
  };
  const Attend cross = [&](AttentionBlock& block, const Var& in) {
    return attend(block, block.qkv[0](in, pass_), of_memory);
  };
  const Var hidden = model_.decode(model_.embed_target(ids, place, pass_), Segments::equal(n, 1).to(model_.device()),
                                   own, cross, pass_);
  return cast(model_.logits(hidden, pass_), model_.dtype() == DType::f64 ? DType::f64 : DType::f32).value();
}

}  // namespace foldgrad
