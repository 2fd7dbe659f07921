#include "models/transformer/beam_search.h"

#include <algorithm>

#include "tests/models/transformer/tiny_translation.h"

namespace foldgrad::testing {
namespace {

const std::vector<Ids> kSources{{4, 5, 6, 2}, {7, 8, 9, 10, 2}, {4, 10, 2}};  // the sources of translation_batch()

// Returns an f64 model with such large weights that the next token depends on all earlier tokens.
std::unique_ptr<Transformer> random_model(unsigned seed, std::int64_t vocabulary = 11,
                                          const std::string& normalizer = "ln") {
  TransformerConfig config = tiny_config(normalizer);
  config.source_vocabulary = config.target_vocabulary = vocabulary;
  config.decoder_layers = 2;
  auto model = std::make_unique<Transformer>(config, 1, DType::f64);
  randomize(*model, seed, 0.4);
  return model;
}

// Returns the log-probabilities of the next token after eos and `ids`, from a full pass over the sentence.
std::vector<double> next_log_probabilities(Transformer& model, const Ids& source, const Ids& ids) {
  Ids input{kEos};
  input.insert(input.end(), ids.begin(), ids.end());
  const Tensor logits = logits_by_tape(model, {Sentences::of({source}), Sentences::of({input}), {}});
  const std::int64_t V = logits.shape()[-1];
  const double* z = logits.data<double>() + (std::int64_t(input.size()) - 1) * V;
  double total = 0;
  for (std::int64_t v = 0; v < V; ++v) total += std::exp(z[v]);
  std::vector<double> log_p;
  for (std::int64_t v = 0; v < V; ++v) log_p.push_back(z[v] - std::log(total));
  return log_p;
}

std::vector<Hypothesis> search_one(Transformer& model, const Ids& source, const DecodingOptions& options) {
  return beam_search(InferenceTransformer(model), Sentences::of({source}), options)[0];
}

void expect_hypotheses(const std::vector<Hypothesis>& got, const std::vector<Hypothesis>& want,
                       double tolerance = 1e-11) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got[i].ids, want[i].ids) << i;
    EXPECT_NEAR(got[i].score, want[i].score, tolerance) << i;
  }
}

// Each step continues rows of the previous step once, twice or not at all. Its logits must equal those of a full
// forward pass.
void expect_full_forward_passes(const std::string& normalizer, Device device) {
  SCOPED_TRACE(normalizer + " on " + name(device));
  const auto model = random_model(1, 11, normalizer);
  const auto there = model->copy(DType::f64, device);
  const TranslationBatch batch = translation_batch();
  const InferenceTransformer inference(as_transformer(*there, "the test"), DType::f64);
  StepDecoder decoder(inference, batch.source);
  std::vector<Ids> histories(3);
  Ids sentence{0, 1, 2};
  const std::vector<Ids> parents{{0, 1, 2}, {2, 0, 0, 1}, {3, 1, 1, 0, 2}, {4, 0}},
      tokens{{2, 2, 2}, {4, 5, 6, 7}, {8, 9, 10, 4, 5}, {6, 7}};
  for (std::size_t step = 0; step < parents.size(); ++step) {
    EXPECT_EQ(decoder.steps(), std::int64_t(step));
    const Tensor there_logits = decoder.step(tokens[step], parents[step]), logits = there_logits.to(Device::cpu);
    EXPECT_EQ(there_logits.device(), device);
    std::vector<Ids> next;
    Ids next_sentence;
    for (std::size_t r = 0; r < parents[step].size(); ++r) {
      next.push_back(histories[parents[step][r]]);
      if (step > 0) next.back().push_back(tokens[step][r]);
      next_sentence.push_back(sentence[parents[step][r]]);
      const std::vector<double> want = next_log_probabilities(*model, kSources[next_sentence[r]], next[r]);
      const double* z = logits.data<double>() + r * 11;
      for (int v = 1; v < 11; ++v)
        EXPECT_NEAR(z[v] - z[0], want[v] - want[0], 1e-11) << "step " << step << ", row " << r;
    }
    histories = next, sentence = next_sentence;
  }
}
TEST(StepDecoder, EveryStepIsAFullForwardPass) {
  for (const char* normalizer : {"ln", "un", "bn"})
    for (const Device device : devices()) expect_full_forward_passes(normalizer, device);
}

// Returns all hypotheses of 1 to `limit` tokens, best first.
std::vector<Hypothesis> exhaustive(Transformer& model, const Ids& source, std::int64_t limit, double length_penalty) {
  std::vector<Hypothesis> all;
  struct Open {
    Ids ids;
    double sum;
  };
  std::vector<Open> open{{{}, 0}};
  while (!open.empty()) {
    const Open o = open.back();
    open.pop_back();
    const auto log_p = next_log_probabilities(model, source, o.ids);
    const auto length = double(o.ids.size() + 1);
    if (!o.ids.empty()) all.push_back({o.ids, (o.sum + log_p[kEos]) / std::pow(length, length_penalty)});
    if (std::int64_t(o.ids.size()) == limit) continue;
    for (std::int64_t v : {0, 4, 5}) {
      open.push_back({o.ids, o.sum + log_p[v]});
      open.back().ids.push_back(v);
    }
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
  return all;
}

TEST(BeamSearch, BEAM_3_BEAM_4_AWideBeamIsExhaustiveSearch) {
  for (double length_penalty : {1.0, 0.6, 0.0, -1.0}) {
    const auto model = random_model(7, /*vocabulary=*/6);
    const Ids source{4, 5, 4, 2};
    const auto want = exhaustive(*model, source, 3, length_penalty);
    const auto got = search_one(*model, source,
                                {.beam = 100,
                                 .length_penalty = length_penalty,
                                 .max_length_a = 0.5,
                                 .max_length_b = 1,
                                 .unk_penalty = std::numeric_limits<double>::infinity()});
    EXPECT_EQ(got.size(), 39u);  // 3 + 9 + 27 hypotheses of 1, 2 and 3 tokens
    expect_hypotheses(got, want);
  }
}

// Searches as fairseq does, for one sentence and with a full pass for each hypothesis. Each step extends all rows by
// one token and sorts these candidates. The best `beam` candidates without eos are the next rows; candidates with eos
// are finished if they are among the first `beam`. The first step has only one row.
std::vector<Hypothesis> reference_search(Transformer& model, const Ids& source, std::size_t beam, std::size_t limit) {
  std::vector<std::pair<double, Ids>> rows{{0, {}}};
  std::vector<Hypothesis> done;
  for (std::size_t step = 0; step <= limit; ++step) {
    std::vector<std::pair<double, Ids>> candidates;
    for (const auto& [sum, ids] : rows) {
      const auto log_p = next_log_probabilities(model, source, ids);
      for (std::int64_t v = 0; v < std::int64_t(log_p.size()); ++v) {
        if (v == kPad || (step == 0 && v == kEos) || (step == limit && v != kEos)) continue;
        Ids longer = ids;
        longer.push_back(v);
        candidates.push_back({sum + log_p[v] - (v == kUnk ? 0.5 : 0), longer});
      }
    }
    std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    candidates.resize(std::min(candidates.size(), 2 * beam));
    rows.clear();
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      auto& [sum, ids] = candidates[i];
      if (ids.back() != kEos && rows.size() < beam) rows.push_back({sum, ids});
      if (ids.back() == kEos && i < beam && done.size() < beam)
        done.push_back({Ids(ids.begin(), ids.end() - 1), sum / double(step + 1)});
    }
    if (done.size() == beam) break;
  }
  std::stable_sort(done.begin(), done.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
  return done;
}

// A beam of 1 is greedy decoding.
TEST(BeamSearch, BEAM_1_BEAM_2_KeepsWhatFairseqKeeps) {
  int early = 0;
  for (unsigned seed = 1; seed <= 12; ++seed)
    for (std::size_t beam : {1, 2, 3, 5}) {
      const auto model = random_model(100 * seed);
      const Ids source{4, 9, 6, 10, 2};
      const auto want = reference_search(*model, source, beam, 8);
      const DecodingOptions options{
          .beam = std::int64_t(beam), .max_length_a = 1.2, .max_length_b = 2, .unk_penalty = 0.5};
      for (const Device device : devices()) {
        if (device != Device::cpu && seed > 3) continue;  // an emulated device is slow
        SCOPED_TRACE(fmt::format("seed {} on {}", seed, name(device)));
        const auto there = model->copy(DType::f64, device);
        expect_hypotheses(search_one(as_transformer(*there, "the test"), source, options), want);
      }
      for (const Hypothesis& h : want) early += h.ids.size() < 8;
    }
  EXPECT_GT(early, 20);  // many sentences end before the limit
}

TEST(BeamSearch, ASentenceDoesNotDependOnItsBatch) {
  for (const char* normalizer : {"ln", "un"}) {
    const auto model = random_model(300, 11, normalizer);
    const TranslationBatch batch = translation_batch();
    const auto all = beam_search(InferenceTransformer(*model), batch.source, {.beam = 3});
    ASSERT_EQ(all.size(), kSources.size());
    for (std::size_t b = 0; b < kSources.size(); ++b)
      expect_hypotheses(all[b], search_one(*model, kSources[b], {.beam = 3}));
  }
}

TEST(BeamSearch, CandidatesAreTheFirstOfAllSorted) {
  constexpr std::int64_t kRows = 3;
  const DecodingOptions options{.unk_penalty = 0.1};
  for (unsigned seed = 0; seed < 50; ++seed) {
    const std::int64_t V = seed % 2 == 0 ? 200 : 2000;  // 4 and 32 blocks of 64 tokens
    const Tensor logits = randn({kRows, V}, seed);
    for (std::int64_t r = 0; r < kRows; ++r)  // makes the special tokens good candidates
      for (std::int64_t v : {kPad, kEos, kUnk}) logits.data<double>()[r * V + v] = 4;
    const std::vector<Continuation> rows{
        {.score = -1}, {.score = -2, .may_end = false}, {.score = -3, .may_go_on = false}};
    const Device device = seed % 5 == 0 && cuda_available() ? Device::cuda : Device::cpu;
    const auto got = best_candidates(logits.to(device), rows, 7, kPad, options);
    for (std::int64_t r = 0; r < kRows; ++r) {
      const double* z = logits.data<double>() + r * V;
      double total = 0;
      for (std::int64_t v = 0; v < V; ++v) total += std::exp(z[v]);
      std::vector<Candidate> want;
      for (std::int64_t v = 0; v < V; ++v)
        if (v != kPad && (v == kEos ? rows[r].may_end : rows[r].may_go_on))
          want.push_back({rows[r].score + z[v] - std::log(total) - (v == kUnk ? 0.1 : 0), r, v});
      std::sort(want.begin(), want.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
      want.resize(std::min<std::size_t>(want.size(), 7));
      ASSERT_EQ(got[r].size(), want.size());
      for (std::size_t i = 0; i < want.size(); ++i) {
        EXPECT_EQ(got[r][i].token, want[i].token) << seed;
        EXPECT_EQ(got[r][i].row, r);
        EXPECT_NEAR(got[r][i].score, want[i].score, 1e-12);
      }
    }
  }
}

TEST(BeamSearch, SinglePrecisionFindsTheSame) {
  const auto exact = random_model(5, 200);
  Transformer model(exact->config(), 1);
  model.copy_from(*exact);
  for (const Ids& source : {Ids{4, 150, 6, 199, 2}, Ids{77, 2}})
    expect_hypotheses(search_one(model, source, {}), search_one(*exact, source, {}), 1e-4);
}

void expect_lost(const std::vector<Hypothesis>& got) {
  ASSERT_EQ(got.size(), 1u);
  EXPECT_TRUE(got[0].ids.empty() && got[0].score == -std::numeric_limits<double>::infinity());
}
// If one hypothesis has non-finite logits, the whole sentence is discarded, since the rest of the beam would hide the
// fault.
TEST(BeamSearch, ADivergedModelGivesOneEmptyResult) {
  TransformerConfig config = random_model(1)->config();
  config.share_embeddings = "none";
  Transformer model(config, 1, DType::f64);
  randomize(model, 1, 0.4);
  const std::int64_t first = search_one(model, {4, 2}, {})[0].ids.at(0);
  model.target_table().value.data<double>()[first * 8] = std::nan("");  // the embedding is NaN, the logit is not
  expect_lost(search_one(model, {4, 2}, {}));
  model.source_table().value.data<double>()[40] = std::nan("");
  expect_lost(search_one(model, {4, 2}, {}));
}

TEST(BeamSearch, Messages) {
  const auto model = random_model(1);
  const auto error = [&](const DecodingOptions& o) { return message_of([&] { search_one(*model, {4, 2}, o); }); };
  EXPECT_EQ(error({.beam = 0}), "decoding: beam must be at least 1, got 0");
  EXPECT_EQ(error({.max_length_a = -1}), "decoding: max_length_a and max_length_b must be at least 0, got -1 and 10");
  EXPECT_EQ(error({.min_length = -1}), "decoding: min_length must be at least 0, got -1");
  EXPECT_EQ(error({.length_penalty = std::nan("")}), "decoding: length_penalty must be finite, got nan");
  EXPECT_EQ(error({.eos = 11}), "decoding: eos must be an id in [0, 11), got 11");
  const auto mixing = random_model(1, 11, "instancenorm");
  EXPECT_EQ(message_of([&] {
              search_one(*mixing, {4, 2}, {});
            }),
            "decoding: encoder.layers.0.self_attn_layer_norm (instancenorm) computes statistics over all tokens of a "
            "sentence, but later tokens are not known yet");
  const InferenceTransformer inference(*model, DType::f64);
  StepDecoder decoder(inference, Sentences::of({{4, 2}}));
  EXPECT_EQ(message_of([&] { decoder.step({2}, {1}); }), "decoding: parents must be in [0, 1), got 1 for row 0");
  EXPECT_EQ(message_of([&] {
              decoder.step({2, 2}, {0});
            }),
            "decoding: each token needs one parent, got 1 parents for 2 tokens");
}

}  // namespace
}  // namespace foldgrad::testing
