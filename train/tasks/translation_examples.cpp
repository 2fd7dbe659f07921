#include <fmt/format.h>

#include <algorithm>

#include "engine/check.h"
#include "engine/files/file.h"
#include "models/transformer/batch.h"
#include "train/data/text/experiment_data.h"
#include "train/system/digest.h"
#include "train/tasks/validation_examples.h"

namespace foldgrad {
namespace {

void require_room(const EncodedPairs& pairs, std::int64_t most, const std::string& name) {
  for (const auto& side : {pairs.source, pairs.target})
    for (std::size_t i = 0; i < side.size(); ++i)
      if (std::int64_t(side[i].size()) > most)
        throw FileError(name, fmt::format("line {} has {} tokens, its end included, but the model takes at most {}",
                                          i + 1, side[i].size(), most));
}

NamedTensors inputs_of(const EncodedPairs& pairs, const std::vector<std::int64_t>& examples, std::int64_t pad) {
  std::vector<Ids> sources, targets;
  for (const std::int64_t i : examples) {
    sources.push_back(pairs.source[std::size_t(i)]);
    targets.push_back(pairs.target[std::size_t(i)]);
  }
  return make_batch(sources, targets, pad, /*pad_sources_left=*/true).named();
}

}  // namespace

ValidationExamples translation_examples(const Model& model, const ExperimentConfig& config,
                                        const std::string& data_directory, const std::string& model_directory) {
  const TransformerConfig& sizes = static_cast<const Transformer&>(model).config();
  const Vocabulary vocabulary = Vocabulary::load(model_directory + "/vocabulary");
  FOLDGRAD_CHECK(
      vocabulary.source_size() == sizes.source_vocabulary && vocabulary.target_size() == sizes.target_vocabulary,
      "{}: the vocabulary must have the {} and {} words of the model, got {} and {}", model_directory,
      sizes.source_vocabulary, sizes.target_vocabulary, vocabulary.source_size(), vocabulary.target_size());
  const auto text = std::make_shared<ParallelText>(read_text(config.data, data_directory, config.data.valid));
  const auto pairs = std::make_shared<EncodedPairs>(encode(vocabulary, *text));
  require_room(*pairs, sizes.max_positions, data_directory + "/" + config.data.valid);
  return {
      .size = std::int64_t(text->source.size()),
      .inputs = [pairs, pad = sizes.pad](const auto& examples) { return inputs_of(*pairs, examples, pad); },
      .digest =
          [text](const auto& examples) {
            std::string lines;
            for (const std::int64_t i : examples)
              lines += text->source[std::size_t(i)] + "\n" + text->target[std::size_t(i)] + "\n";
            return sha256(lines);
          },
      .mask = [](const std::string& layer) { return layer.starts_with("encoder.") ? "source_mask" : "input_mask"; }};
}

}  // namespace foldgrad
