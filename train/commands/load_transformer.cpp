#include "train/commands/load_transformer.h"

#include <fmt/format.h>

#include "train/checkpoints/checkpoint.h"

namespace foldgrad {

std::unique_ptr<Transformer> load_transformer(const std::string& path, DType dtype, Device device,
                                              NonFinite non_finite) {
  std::unique_ptr<Model> model = load_model(path, dtype, device, non_finite);
  if (!dynamic_cast<Transformer*>(model.get()))
    throw CheckpointError(
        fmt::format("{}: must hold a transformer, got {}", find_model_directory(path), model->family()));
  return std::unique_ptr<Transformer>(static_cast<Transformer*>(model.release()));
}

}  // namespace foldgrad
