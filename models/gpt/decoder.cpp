#include "models/gpt/decoder.h"

#include "engine/check.h"
#include "ops/cast/cast.h"
#include "ops/embedding/embedding.h"

namespace foldgrad {
namespace {

void require_ids(const TokenIds& ids, std::int64_t vocabulary) {
  for (const std::int64_t id : ids)
    FOLDGRAD_CHECK(id >= 0 && id < vocabulary, "generation: ids must be in [0, {}), got {}", vocabulary, id);
}

}  // namespace

GptDecoder::GptDecoder(Gpt& model, DType dtype) : model_(model), precision_("generation", model, dtype) {
  for (const Normalizer* norm : model.normalizers())
    FOLDGRAD_CHECK(
        !norm->mixes_tokens(),
        "generation: {} ({}) computes statistics over all tokens of a sequence, but later tokens are not known yet",
        norm->site(), norm->info().name);
}

std::int64_t GptDecoder::room() const { return config().context - begins_.longest() - steps_; }

// Returns the logits of the last row of each sequence.
Tensor GptDecoder::following(const TokenIds& ids, const Segments& rows, const Tensor& places, const Attend& attend) {
  const ForwardPass pass = precision_.pass(tape_);
  const Device device = model_.device();
  const std::int64_t count = rows.count();
  Var hidden =
      model_.decode(model_.embed(Tensor::of({rows.rows()}, ids, device), places, pass), rows.to(device), attend, pass);
  if (rows.rows() > count) {
    TokenIds last;
    for (std::int64_t s = 0; s < count; ++s) last.push_back(rows.offset(s + 1) - 1);
    hidden = gather(hidden, tape_.constant(Tensor::of({count}, last, device)));
  }
  return cast(model_.logits(hidden, pass), model_.dtype() == DType::f64 ? DType::f64 : DType::f32).value();
}

// Appends the queries, keys and values of `rows` to the cache.
void GptDecoder::keep(const AttentionBlock& block, const Tensor& qkv, const Segments& rows) {
  for (std::int64_t s = 0; s < rows.count(); ++s) {
    const std::int64_t to = s * config().context + (steps_ == 0 ? 0 : begins_.length(s) + steps_ - 1);
    cache_.at(&block).slice(to, to + rows.length(s)).copy_from(qkv.slice(rows.offset(s), rows.offset(s + 1)));
  }
}

Tensor GptDecoder::begin(const std::vector<TokenIds>& texts) {
  FOLDGRAD_CHECK(!texts.empty(), "generation: there must be at least 1 text, got 0");
  TokenIds ids, lengths;
  for (const TokenIds& text : texts) {
    FOLDGRAD_CHECK(!text.empty() && std::int64_t(text.size()) <= config().context,
                   "generation: a text must have 1 to context = {} tokens, got {}", config().context, text.size());
    ids.insert(ids.end(), text.begin(), text.end());
    lengths.push_back(std::int64_t(text.size()));
  }
  require_ids(ids, config().vocabulary);
  begins_ = Segments(lengths);
  steps_ = 0;
  const Segments rows = begins_.to(model_.device());
  const Tensor places = begins_.places(), there = places.to(model_.device());
  return following(ids, begins_, places, [&](AttentionBlock& block, const Var& in) {
    const Var qkv = model_.project(block, in, there, precision_.pass(tape_));
    cache_[&block] = Tensor::empty({begins_.count() * config().context, qkv.shape()[-1]}, qkv.dtype(), qkv.device());
    keep(block, qkv.value(), begins_);
    return attention_packed(qkv, {.heads = block.heads, .causal = true}, rows);
  });
}

Tensor GptDecoder::step(const TokenIds& tokens) {
  const std::int64_t count = begins_.count();
  FOLDGRAD_CHECK(
      count > 0 && std::int64_t(tokens.size()) == count,
      "generation: there must be at least one text, and exactly one token per text, got {} texts and {} tokens", count,
      tokens.size());
  FOLDGRAD_CHECK(room() > 0, "generation: a text and its continuation together must have at most context = {} tokens",
                 config().context);
  require_ids(tokens, config().vocabulary);
  TokenIds newest;
  CachePlaces seen;
  ++steps_;
  for (std::int64_t s = 0; s < count; ++s) {
    newest.push_back(begins_.length(s) + steps_ - 1);
    for (std::int64_t place = 0; place <= newest.back(); ++place) seen.add(0, s * config().context + place);
    seen.end_query();
  }
  seen.upload(model_.device());
  const Segments rows = Segments::equal(count, 1);
  const Tensor places = Tensor::of({count}, newest), there = places.to(model_.device());
  return following(tokens, rows, places, [&](AttentionBlock& block, const Var& in) {
    const Tensor qkv = model_.project(block, in, there, precision_.pass(tape_)).value();
    keep(block, qkv, rows);
    return tape_.constant(cached_attention(qkv, {cache_.at(&block)}, seen, block.heads, config().width / block.heads));
  });
}

}  // namespace foldgrad
