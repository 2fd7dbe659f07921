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
    FOLDGRAD_CHECK(!norm->mixes_tokens(),
                   "generation: {} ({}) has statistics over the tokens of a sequence, which are not known yet",
                   norm->site(), norm->info().name);
}

std::int64_t GptDecoder::room() const { return config().context - begins_.longest() - steps_; }

// The logits of the last row of each sequence.
Tensor GptDecoder::following(const TokenIds& ids, const Segments& rows, const Tensor& places,
                             const AttendPacked& attend) {
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

// The keys and values of `rows`, which follow what is in the cache.
void GptDecoder::keep(const PackedAttentionBlock& block, const Tensor& projected, const Segments& rows) {
  const std::int64_t W = config().width;
  const Tensor& cache = cache_.at(&block);
  for (std::int64_t s = 0; s < rows.count(); ++s) {
    const std::int64_t to = s * config().context + (steps_ == 0 ? 0 : begins_.length(s) + steps_ - 1);
    for (std::int64_t i = 0; i < rows.length(s); ++i) {
      const std::int64_t row = rows.offset(s) + i;
      cache.slice(to + i, to + i + 1)
          .reshape({2 * W})
          .copy_from(projected.slice(row, row + 1).reshape({3 * W}).slice(W, 3 * W));
    }
  }
}

Tensor GptDecoder::begin(const std::vector<TokenIds>& texts) {
  FOLDGRAD_CHECK(!texts.empty(), "generation: there must be a text to begin with, got 0");
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
  return following(ids, begins_, begins_.places(), [&](PackedAttentionBlock& block, const Var& projected) {
    cache_[&block] =
        Tensor::empty({begins_.count() * config().context, 2 * config().width}, projected.dtype(), projected.device());
    keep(block, projected.value(), begins_);
    return block.attend(projected, rows, /*causal=*/true, precision_.pass(tape_));
  });
}

Tensor GptDecoder::step(const TokenIds& tokens) {
  const std::int64_t count = begins_.count();
  FOLDGRAD_CHECK(count > 0 && std::int64_t(tokens.size()) == count, "generation: {} texts take as many tokens, got {}",
                 count, tokens.size());
  FOLDGRAD_CHECK(room() > 0, "generation: a text and its continuation must have at most context = {} tokens",
                 config().context);
  require_ids(tokens, config().vocabulary);
  TokenIds places;
  CachePlaces seen;
  for (std::int64_t s = 0; s < count; ++s) {
    places.push_back(begins_.length(s) + steps_);
    for (std::int64_t place = 0; place <= places.back(); ++place) seen.add(0, s * config().context + place);
    seen.end_query();
  }
  seen.upload(model_.device());
  ++steps_;
  const Segments rows = Segments::equal(count, 1);
  return following(tokens, rows, Tensor::of({count}, places), [&](PackedAttentionBlock& block, const Var& projected) {
    keep(block, projected.value(), rows);
    return tape_.constant(
        cached_attention(projected.value(), {cache_.at(&block)}, seen, block.heads, config().width / block.heads));
  });
}

}  // namespace foldgrad
