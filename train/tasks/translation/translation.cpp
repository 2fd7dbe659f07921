#include "train/tasks/translation/translation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/parallel/in_turns.h"

namespace foldgrad {

ValidationLoss validation_loss(Transformer& model, Batches& batches, Communicator* communicator) {
  const auto of_batch = [&](std::int64_t i) -> std::vector<double> {
    const Batch batch = batches.at(i);
    Tape tape(/*recording=*/false);
    const Var loss = model.loss(batch.sentences, {.tape = tape, .dtype = DType::f32}, /*label_smoothing=*/0);
    return {loss.value().item(), double(batch.target_tokens())};
  };
  ValidationLoss result;
  double sum = 0;
  for (const std::vector<double>& batch : in_turns<double>(communicator, batches.per_epoch(), of_batch)) {
    sum += batch[0];
    result.target_tokens += std::int64_t(batch[1]);
  }
  result.loss = sum / double(result.target_tokens);  // [VAL-1]
  result.perplexity = std::exp(result.loss);         // [VAL-2]
  return result;
}

std::vector<Hypothesis> best_hypotheses(const InferenceTransformer& model, const std::vector<Ids>& sources,
                                        const DecodingOptions& options, std::int64_t max_tokens,
                                        Communicator* communicator) {
  std::vector<Hypothesis> best(sources.size());
  std::vector<std::size_t> places;  // indices of the sources to translate
  std::vector<Ids> translated;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i] == Ids{kEos}) continue;
    places.push_back(i);
    translated.push_back(sources[i]);
  }
  if (places.empty()) return best;
  // Batches needs pairs, so the sources are also the targets. Batches groups the pairs by length.
  Batches batches({translated, translated}, {.max_tokens = max_tokens, .multiple = 1, .shuffle = false});
  // Returns the number, the score, the number of ids and the ids of each sentence; f64 holds all of them exactly.
  const auto of_batch = [&](std::int64_t i) {
    const Batch batch = batches.at(i);
    const auto results = beam_search(model, batch.sentences.source, options);
    std::vector<double> all;
    for (std::size_t row = 0; row < results.size(); ++row) {
      const Hypothesis& first = results[row].at(0);
      all.insert(all.end(), {double(batch.pairs[row]), first.score, double(first.ids.size())});
      all.insert(all.end(), first.ids.begin(), first.ids.end());
    }
    return all;
  };
  for (const std::vector<double>& batch : in_turns<double>(communicator, batches.per_epoch(), of_batch))
    for (auto at = batch.begin(); at != batch.end();) {
      Hypothesis& of_pair = best[places[std::size_t(at[0])]];
      of_pair.score = at[1];
      const auto ids = at + 3;
      at = ids + std::ptrdiff_t(at[2]);
      of_pair.ids.assign(ids, at);
    }
  return best;
}

TranslationScores score_translations(const ValidationLoss& loss, const Lines& hypotheses, const Lines& references) {
  return {loss, sacre_bleu(hypotheses, references), multi_bleu(hypotheses, references), chrf(hypotheses, references),
          exact_match(hypotheses, references)};
}

Validation TranslationScores::validation() const {
  return {.loss = loss.loss,
          .deciding = sacre.score,
          .scores = {{"loss", loss.loss},
                     {"perplexity", loss.perplexity},
                     {"bleu", sacre.score},
                     {"tokenized_bleu", tokenized.score},
                     {"chrf", chrf.score},
                     {"exact", exact}},
          .notes = {{"bleu_signature", sacre.signature},
                    {"tokenized_bleu_text", tokenized.text},
                    {"chrf_signature", chrf.signature}},
          .text = fmt::format(
              "loss {:.4f}, perplexity {:.3f}, BLEU {:.2f} ({}), tokenized {}, chrF2 {:.2f}, exact {:.1f} %", loss.loss,
              loss.perplexity, sacre.score, sacre.signature, tokenized.text, chrf.score, exact),
          .short_text = fmt::format("loss {:.4f}  ppl {:.2f}  BLEU {:.2f}  chrF {:.1f}  exact {:.1f} %", loss.loss,
                                    loss.perplexity, sacre.score, chrf.score, exact),
          .signatures = fmt::format("BLEU is sacreBLEU {}, chrF is {}; all scores are in log.jsonl", sacre.signature,
                                    chrf.signature)};
}

Examples examples_of(const Batch& batch) {
  return {batch.sentences.named(), batch.target_tokens(), batch.source_tokens() + batch.target_tokens()};
}

namespace {

// Returns source, reference and hypothesis of up to ten sentences, the same at every validation.
std::string samples_text(const ParallelText& text, const Lines& hypotheses) {
  std::string all;
  const std::size_t count = hypotheses.size(), shown = std::min<std::size_t>(count, 10);
  for (std::size_t k = 0; k < shown; ++k) {
    const std::size_t i = k * count / shown;  // spreads the samples over the text
    all += fmt::format("source      {}\nreference   {}\nhypothesis  {}\n\n", text.source[i], text.target[i],
                       hypotheses[i]);
  }
  return all;
}

class Translation final : public Task {
 public:
  // `model` is a Transformer. Throws std::invalid_argument for data that Batches rejects.
  Translation(std::unique_ptr<Model> model, ExperimentData data, const ExperimentConfig& config)
      : Task(*model, {.deciding_score = "bleu", .unit_of_work = "tokens", .data_digests = data.digests}),
        model_(std::move(model)),
        data_(std::move(data)),
        config_(config.data.as<DataConfig>()),
        batches_(std::move(data_.train.pairs),
                 {.max_tokens = config_.max_tokens, .seed = std::uint64_t(config.train.seed), .prefetch = true}),
        valid_(data_.valid.pairs, {.max_tokens = config_.max_tokens, .multiple = 1, .shuffle = false}) {}

  Examples next() override { return examples_of(batches_.next()); }
  Batches& batches() override { return batches_; }
  // Translates the validation text and scores the translations.
  Validation validate(Communicator* communicator) override {
    const DecodingOptions decoding{.beam = config_.beam,
                                   .length_penalty = config_.length_penalty,
                                   .max_length_a = config_.max_length_a,
                                   .max_length_b = config_.max_length_b};
    Lines hypotheses;
    for (const Hypothesis& best : best_hypotheses(InferenceTransformer(transformer()), data_.valid.pairs.source,
                                                  decoding, config_.max_tokens, communicator))
      hypotheses.push_back(data_.vocabulary.decode_target(best.ids));
    const TranslationScores scores =
        score_translations(validation_loss(transformer(), valid_, communicator), hypotheses, data_.valid.text.target);
    Validation v = scores.validation();
    v.samples = samples_text(data_.valid.text, hypotheses);
    return v;
  }
  void write_companions(const std::string& directory) const override {
    data_.vocabulary.save(directory + "/vocabulary");
  }

 private:
  Transformer& transformer() { return static_cast<Transformer&>(*model_); }

  std::unique_ptr<Model> model_;
  ExperimentData data_;
  const DataConfig config_;
  Batches batches_, valid_;
};

}  // namespace

std::unique_ptr<Task> make_translation(ExperimentConfig config, const std::string& data_directory,
                                       const std::string& earlier, Device device) {
  // A model keeps its vocabulary, even if the training text has changed.
  ExperimentData data = earlier.empty() ? read_data(config, data_directory)
                                        : read_data(config, data_directory, Vocabulary::load(earlier + "/vocabulary"));
  auto& sizes = config.model.as<TransformerConfig>();
  sizes.source_vocabulary = data.vocabulary.source_size(), sizes.target_vocabulary = data.vocabulary.target_size();
  sizes.pad = kPad;
  std::unique_ptr<Model> model = new_model(config, device);
  for (const Normalizer* norm : model->normalizers())
    if (norm->mixes_tokens())
      throw ConfigError(
          fmt::format("norm.name: {} needs all tokens of a sentence at once, but a translation is generated token by "
                      "token; groupnorm works with norm.groupnorm.axes = \"token\"",
                      norm->info().name));
  return std::make_unique<Translation>(std::move(model), std::move(data), config);
}

CheckResult check_translations(Transformer& model, Transformer& folded, const Sentences& sources) {
  constexpr const char* kName = "greedy translations of the folded model are the same";
  if (std::ranges::any_of(model.normalizers(), &Normalizer::mixes_tokens))
    return check_skipped(kName, "statistics over a sentence need all of its tokens at once");
  const DecodingOptions greedy{.beam = 1};
  const auto want = beam_search(InferenceTransformer(model), sources, greedy),
             got = beam_search(InferenceTransformer(folded), sources, greedy);
  std::size_t same = 0;
  for (std::size_t i = 0; i < want.size(); ++i) same += want[i].at(0).ids == got[i].at(0).ids;
  return check_that(kName, same == want.size(), fmt::format("{} of {}", same, want.size()));
}

}  // namespace foldgrad
