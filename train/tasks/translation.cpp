#include "train/tasks/translation.h"

#include "train/tasks/evaluation.h"

namespace foldgrad {

Examples examples_of(const Batch& batch) {
  return {batch.sentences.named(), batch.target_tokens, batch.source_tokens + batch.target_tokens};
}

Translation::Translation(std::unique_ptr<Model> model, ExperimentData data, const ExperimentConfig& config)
    : owned_(std::move(model)),
      model_(as_transformer(*owned_, "translation")),
      data_(std::move(data)),
      config_(config.data),
      label_smoothing_(config.train.label_smoothing),
      batches_(std::move(data_.train.pairs),
               {.max_tokens = config_.max_tokens, .seed = std::uint64_t(config.train.seed), .prefetch = true}),
      valid_(data_.valid.pairs, {.max_tokens = config_.max_tokens, .multiple = 1, .shuffle = false}) {}

Examples Translation::next() { return examples_of(batches_.next()); }

std::vector<std::string> Translation::translate() const {
  const InferenceTransformer inference(model_);
  const DecodingOptions decoding{.beam = config_.beam,
                                 .length_penalty = config_.length_penalty,
                                 .max_length_a = config_.max_length_a,
                                 .max_length_b = config_.max_length_b};
  std::vector<std::string> lines;
  for (const Ids& ids : translations(inference, data_.valid.pairs.source, decoding, config_.max_tokens))
    lines.push_back(data_.vocabulary.decode_target(ids));
  return lines;
}

Validation Translation::validate() {
  const std::vector<std::string> hypotheses = translate();
  const TranslationScores scores =
      score_translations(validation_loss(model_, valid_), hypotheses, data_.valid.text.target);
  Validation v = scores.validation();
  v.samples = samples_text(data_.valid.text, hypotheses);
  return v;
}

void Translation::write_companions(const std::string& directory) const {
  data_.vocabulary.save(directory + "/vocabulary");
}

DataSizes sizes_of(const Vocabulary& vocabulary) {
  return {.source_vocabulary = vocabulary.source_size(), .target_vocabulary = vocabulary.target_size()};
}

std::unique_ptr<Task> make_translation(const ExperimentConfig& config, const std::string& data_directory,
                                       const std::string& earlier, const NewModel& new_model) {
  // The vocabulary of a run stays, whatever has become of the files that it was made from.
  ExperimentData data = earlier.empty() ? read_data(config, data_directory)
                                        : read_data(config, data_directory, Vocabulary::load(earlier + "/vocabulary"));
  std::unique_ptr<Model> model = new_model(sizes_of(data.vocabulary));
  return std::make_unique<Translation>(std::move(model), std::move(data), config);
}

}  // namespace foldgrad
