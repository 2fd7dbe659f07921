// The functions of the row of translation (families.h), and the vocabulary of a model that translates.
#pragma once
#include "models/transformer/transformer.h"
#include "train/data/text/vocabulary.h"
#include "train/tasks/families.h"

namespace foldgrad {

// Loads the vocabulary of a model's directory, whose sizes must be those of `config`. Throws CheckpointError.
Vocabulary load_vocabulary(const std::string& directory, const TransformerConfig& config);
// {"kind", "source", "target"}, the sizes of both sides; null without a vocabulary.
nlohmann::ordered_json vocabulary_json(const Model& model, const std::string& directory);

// source and input, i64 or i32 [sentences, tokens]; their masks, u8, where they are not what is no padding.
NamedTensors read_translation_inputs(const Model& model, const std::string& path);
// logits, and memory: the encoder's output. Both are zero where the masks are.
NamedTensors translation_results(Model& model, const NamedTensors& inputs, const ForwardPass& pass);

// Throw FileError, naming the line, for a sentence that is longer than the model takes or than options.max_tokens.
Evaluation evaluate_translation(Model& model, const ModelData& data, const EvaluationOptions& options);
TrainingInputs translation_training_inputs(const Model& model, const ModelData& data, std::int64_t max_tokens,
                                           std::uint64_t seed);
// Pairs of sentences; their length is that of the longer.
ExampleSet translation_examples(const Model& model, const ModelData& data);

}  // namespace foldgrad
