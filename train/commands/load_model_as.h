// Loads models that must be of a given type.
#pragma once
#include <fmt/format.h>

#include "models/transformer/transformer.h"
#include "train/checkpoints/model_directory.h"

namespace foldgrad {

// Loads a model like load_model(). Also throws CheckpointError if the model is not an M. `kind` describes an M in the
// message, for example "a language model (gpt)".
template <class M>
std::unique_ptr<M> load_model_as(const char* kind, const std::string& path, DType dtype, Device device,
                                 NonFinite non_finite) {
  std::unique_ptr<Model> model = load_model(path, dtype, device, non_finite);
  if (!dynamic_cast<M*>(model.get()))
    throw CheckpointError(
        fmt::format("{}: must be {}, but this is a {}", find_model_directory(path), kind, model->family()));
  return std::unique_ptr<M>(static_cast<M*>(model.release()));
}

inline std::unique_ptr<Transformer> load_transformer(const std::string& path, DType dtype = DType::f32,
                                                     Device device = Device::cpu,
                                                     NonFinite non_finite = NonFinite::refuse) {
  return load_model_as<Transformer>("a model that translates (transformer)", path, dtype, device, non_finite);
}

}  // namespace foldgrad
