// A model directory whose model must be one that translates.
#pragma once
#include <fmt/format.h>

#include "models/transformer/transformer.h"
#include "train/checkpoints/model_directory.h"
#include "train/checks/checkpoint_error.h"

namespace foldgrad {

// As load_model() does. Throws CheckpointError for a model of another family too.
inline std::unique_ptr<Transformer> load_transformer(const std::string& path, DType dtype = DType::f32,
                                                     Device device = Device::cpu,
                                                     NonFinite non_finite = NonFinite::refuse) {
  std::unique_ptr<Model> model = load_model(path, dtype, device, non_finite);
  if (!dynamic_cast<Transformer*>(model.get()))
    throw CheckpointError(fmt::format("{}: must be a model that translates (transformer), but this is a {}",
                                      find_model_directory(path), model->family()));
  return std::unique_ptr<Transformer>(static_cast<Transformer*>(model.release()));
}

}  // namespace foldgrad
