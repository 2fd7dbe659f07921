// A model directory whose model must be one that translates.
#pragma once
#include "models/transformer/transformer.h"
#include "train/checkpoints/model_directory.h"
#include "train/data/text/vocabulary.h"

namespace foldgrad {

// As load_model() does. Throws CheckpointError for a model of another family too.
std::unique_ptr<Transformer> load_transformer(const std::string& path, DType dtype = DType::f32,
                                              Device device = Device::cpu, NonFinite non_finite = NonFinite::refuse);

// The same of one that was loaded from `path`. Throws CheckpointError for a model of another family.
std::unique_ptr<Transformer> require_transformer(std::unique_ptr<Model> model, const std::string& path);

// Loads the vocabulary of find_model_directory(path), whose sizes must be those of `config`. Throws CheckpointError.
Vocabulary load_vocabulary(const std::string& path, const TransformerConfig& config);

}  // namespace foldgrad
