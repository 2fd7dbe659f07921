#include "models/transformer/beam_search.h"

#include <algorithm>
#include <cmath>

#include "ops/top_k/top_k.h"

namespace foldgrad {
namespace {

struct LiveHypothesis {
  std::vector<std::int64_t> ids;
  double score = 0;
  std::int64_t row = 0;  // the hypothesis's row in the step that scored its last token
};

struct Sentence {
  std::int64_t limit;
  std::vector<LiveHypothesis> live = {};
  std::vector<Hypothesis> results = {};
};

void check(const DecodingOptions& o, std::int64_t V) {
  FOLDGRAD_CHECK(o.beam >= 1, "decoding: beam must be at least 1, got {}", o.beam);
  FOLDGRAD_CHECK(o.min_length >= 0, "decoding: min_length must be at least 0, got {}", o.min_length);
  FOLDGRAD_CHECK(o.max_length_a >= 0 && o.max_length_b >= 0,
                 "decoding: max_length_a and max_length_b must be at least 0, got {} and {}", o.max_length_a,
                 o.max_length_b);
  FOLDGRAD_CHECK(std::isfinite(o.length_penalty), "decoding: length_penalty must be finite, got {}", o.length_penalty);
  FOLDGRAD_CHECK(o.eos >= 0 && o.eos < V, "decoding: eos must be an id in [0, {}), got {}", V, o.eos);
}

std::vector<Sentence> sentences_of(const Segments& sources, std::int64_t longest, const DecodingOptions& o) {
  std::vector<Sentence> sentences;
  for (std::int64_t b = 0; b < sources.count(); ++b) {
    const double limit = std::floor(o.max_length_a * double(sources.length(b))) + double(o.max_length_b);  // [BEAM-4]
    sentences.push_back({.limit = std::int64_t(std::min(limit, double(longest)))});
    sentences.back().live.push_back({.ids = {}, .score = 0, .row = b});
  }
  return sentences;
}

// Advances a sentence by one token, given the candidates that follow its hypotheses of `step` tokens.
void advance(Sentence& sentence, std::vector<Candidate> candidates,
             const std::vector<const LiveHypothesis*>& live_of_row, std::int64_t step, const DecodingOptions& o) {
  std::ranges::sort(candidates, &Candidate::before);
  candidates.resize(std::min(candidates.size(), std::size_t(2 * o.beam)));  // [BEAM-1]
  std::vector<LiveHypothesis> next;
  for (std::size_t rank = 0; rank < candidates.size(); ++rank) {
    const Candidate& c = candidates[rank];
    const std::vector<std::int64_t>& ids = live_of_row[c.row]->ids;
    if (c.token != o.eos) {
      if (std::int64_t(next.size()) == o.beam) continue;
      next.push_back({.ids = ids, .score = c.score, .row = c.row});
      next.back().ids.push_back(c.token);
    } else if (std::int64_t(rank) < o.beam && std::int64_t(sentence.results.size()) < o.beam) {   // [BEAM-2]
      sentence.results.push_back({ids, c.score / std::pow(double(step + 1), o.length_penalty)});  // [BEAM-3]
    }
  }
  const bool done = std::int64_t(sentence.results.size()) == o.beam || step >= sentence.limit;
  sentence.live = done ? std::vector<LiveHypothesis>() : std::move(next);
}

// Advances every unfinished sentence by one step. Returns false if all are done.
bool search_step(StepDecoder& decoder, std::vector<Sentence>& sentences, std::int64_t pad, const DecodingOptions& o) {
  const std::int64_t step = decoder.steps();
  std::vector<std::int64_t> tokens, parents;
  std::vector<const LiveHypothesis*> live_of_row;
  std::vector<Continuation> rows;
  for (const Sentence& sentence : sentences)
    for (const LiveHypothesis& live : sentence.live) {
      tokens.push_back(live.ids.empty() ? o.eos : live.ids.back());
      parents.push_back(live.row);
      live_of_row.push_back(&live);
      const bool go_on = step < sentence.limit;
      rows.push_back({.score = live.score, .may_end = !go_on || step >= o.min_length, .may_go_on = go_on});
    }
  if (rows.empty()) return false;
  const auto best = best_candidates(decoder.step(tokens, parents), rows, 2 * o.beam, pad, o);
  std::size_t row = 0;
  for (Sentence& sentence : sentences) {
    std::vector<Candidate> candidates;
    bool lost = false;  // non-finite logits leave a hypothesis without candidates
    for (std::size_t end = row + sentence.live.size(); row < end; ++row) {
      candidates.insert(candidates.end(), best[row].begin(), best[row].end());
      lost = lost || best[row].empty();
    }
    if (lost)
      sentence.live.clear(), sentence.results.clear();
    else if (!sentence.live.empty())
      advance(sentence, std::move(candidates), live_of_row, step, o);
  }
  return true;
}

}  // namespace

std::vector<std::vector<Candidate>> best_candidates(const Tensor& logits, const std::vector<Continuation>& rows,
                                                    std::int64_t count, std::int64_t pad,
                                                    const DecodingOptions& options) {
  const std::int64_t V = logits.shape()[-1], eos = options.eos, unk = options.unk;
  const bool unk_is_special = unk >= 0 && unk < V && unk != eos && unk != pad;
  // Takes three more entries, since padding, the end and unk may be among the largest, but are handled separately.
  const std::int64_t k = std::min(count + 3, V);
  const TopK top = top_k(logits, k, {eos, unk_is_special ? unk : eos});
  const auto on_host = [](const Tensor& t) { return t.to(Device::cpu).to(DType::f64).values<double>(); };
  const std::vector<double> values = on_host(top.values), sums = on_host(top.log_sum_exp),
                            special = on_host(top.wanted);
  const std::vector<std::int64_t> ids = top.indices.values<std::int64_t>();
  std::vector<std::vector<Candidate>> all;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::vector<Candidate>& best = all.emplace_back();
    const double base = rows[r].score - sums[r];
    const auto offer = [&](std::int64_t v, double z, double penalty) {
      const Candidate c{base + z - penalty, std::int64_t(r), v};
      if (c.score > -std::numeric_limits<double>::infinity()) best.push_back(c);  // rejects NaN, too
    };
    if (rows[r].may_end) offer(eos, special[2 * r], 0);
    if (rows[r].may_go_on && unk_is_special) offer(unk, special[2 * r + 1], options.unk_penalty);
    for (std::size_t i = r * std::size_t(k); rows[r].may_go_on && i < (r + 1) * std::size_t(k); ++i)
      if (ids[i] >= 0 && ids[i] != eos && ids[i] != pad && ids[i] != unk) offer(ids[i], values[i], 0);
    std::ranges::sort(best, &Candidate::before);
    best.resize(std::min(best.size(), std::size_t(count)));
  }
  return all;
}

std::vector<std::vector<Hypothesis>> beam_search(const InferenceTransformer& model, const Sentences& sources,
                                                 const DecodingOptions& options) {
  const TransformerConfig& config = model.config();
  check(options, config.target_vocabulary);
  StepDecoder decoder(model, sources);
  std::vector<Sentence> sentences = sentences_of(sources.rows, config.max_positions - 1, options);
  while (search_step(decoder, sentences, config.pad, options)) {
  }
  std::vector<std::vector<Hypothesis>> all;
  for (Sentence& sentence : sentences) {
    std::ranges::stable_sort(sentence.results, std::ranges::greater(), &Hypothesis::score);
    if (sentence.results.empty()) sentence.results.push_back({{}, -std::numeric_limits<double>::infinity()});
    all.push_back(std::move(sentence.results));
  }
  return all;
}

}  // namespace foldgrad
