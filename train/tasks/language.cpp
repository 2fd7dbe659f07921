#include "train/tasks/language.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "models/gpt/sampling.h"
#include "train/system/unicode.h"

namespace foldgrad {

Validation LanguageScores::validation() const {
  return {.loss = loss,
          .deciding = -bits_per_character,
          .scores = {{"loss", loss}, {"perplexity", perplexity}, {"bits_per_character", bits_per_character}},
          .text = fmt::format("loss {:.4f}, perplexity {:.3f}, {:.4f} bits per character", loss, perplexity,
                              bits_per_character),
          .short_text =
              fmt::format("loss {:.4f}  ppl {:.2f}  {:.3f} bits/character", loss, perplexity, bits_per_character)};
}

LanguageScores score_text(Model& model, const TextVocabulary& vocabulary, const std::string& text, std::int64_t batch) {
  const Ids ids = vocabulary.encode(text);
  LanguageScores scores;
  Tape tape(/*recording=*/false);
  double sum = 0;
  for (const WindowBatch& windows : windows_in_order(ids, static_cast<Gpt&>(model).config().context, batch)) {
    sum += model.loss(windows.named(), {.tape = tape, .dtype = DType::f32}, /*label_smoothing=*/0).value().item();
    scores.tokens += windows.target.size();
    tape.clear();
  }
  const auto characters = [](const std::string& of) { return std::int64_t(decode_utf8(of).size()); };
  scores.characters = characters(text) - characters(vocabulary.decode({ids[0]}));
  scores.loss = sum / double(scores.tokens);                                          // [LM-1]
  scores.perplexity = std::exp(scores.loss);                                          // [LM-2]
  scores.bits_per_character = sum / (std::numbers::ln2 * double(scores.characters));  // [LM-3]
  return scores;
}

std::string written_samples(Gpt& model, const TextVocabulary& vocabulary, const Ids& text) {
  constexpr std::int64_t kSamples = 3, kTokens = 300;
  if (std::ranges::any_of(model.normalizers(), &Normalizer::mixes_tokens)) return "";
  const auto tokens = std::int64_t(text.size());
  const std::int64_t given =
      std::clamp<std::int64_t>(model.config().context / 4, 1, std::min<std::int64_t>(tokens, 64));
  std::vector<Ids> passages, written(kSamples);
  for (std::int64_t s = 0; s < kSamples; ++s) {
    const auto begin = text.begin() + (tokens - given) * s / kSamples;
    passages.emplace_back(begin, begin + given);
  }
  GptDecoder decoder(model, model.dtype());
  (void)generate(decoder, passages, kTokens, {},
                 [&](std::size_t sample, std::int64_t token) { written[sample].push_back(token); });
  std::string all;
  for (std::size_t s = 0; s < written.size(); ++s)
    all += fmt::format("--- after \"{}\":\n{}\n\n", vocabulary.decode(passages[s]), vocabulary.decode(written[s]));
  return all;
}

Language::Language(std::unique_ptr<Model> model, LanguageData data, const ExperimentConfig& config)
    : model_(std::move(model)),
      data_(std::move(data)),
      config_(config.language),
      label_smoothing_(config.train.label_smoothing),
      valid_(data_.vocabulary.encode(data_.valid)),
      batches_(data_.vocabulary.encode(data_.train), {.length = this->model().config().context,
                                                      .size = config_.batch,
                                                      .seed = std::uint64_t(config.train.seed),
                                                      .prefetch = true}) {
  FOLDGRAD_CHECK(valid_.size() >= 2, "to validate on, a text must have at least 2 tokens, got {}", valid_.size());
}

Examples Language::next() {
  const WindowBatch batch = batches_.next();
  return {batch.named(), batch.target.size(), batch.target.size()};
}

Validation Language::validate() {
  Validation v = score_text(*model_, data_.vocabulary, data_.valid, config_.batch).validation();
  v.samples = written_samples(model(), data_.vocabulary, valid_);
  return v;
}

void Language::write_companions(const std::string& directory) const {
  data_.vocabulary.save(directory + "/vocabulary");
}

std::unique_ptr<Task> make_language(const ExperimentConfig& config, const std::string& data_directory,
                                    const std::string& earlier, const NewModel& new_model) {
  // The vocabulary of a model stays, whatever has become of the files that it was made from.
  std::optional<TextVocabulary> vocabulary;
  if (!earlier.empty()) vocabulary = TextVocabulary::load(earlier + "/vocabulary");
  LanguageData data = read_language_data(config.language, data_directory, std::move(vocabulary));
  std::unique_ptr<Model> model = new_model({.target_vocabulary = data.vocabulary.size()});
  return std::make_unique<Language>(std::move(model), std::move(data), config);
}

}  // namespace foldgrad
