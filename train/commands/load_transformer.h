// A model directory whose model must be one that translates.
#pragma once
#include "models/transformer/transformer.h"
#include "train/checkpoints/model_directory.h"

namespace foldgrad {

// As load_model() does. Throws CheckpointError for a model of another family too.
std::unique_ptr<Transformer> load_transformer(const std::string& path, DType dtype = DType::f32,
                                              Device device = Device::cpu, NonFinite non_finite = NonFinite::refuse);

}  // namespace foldgrad
