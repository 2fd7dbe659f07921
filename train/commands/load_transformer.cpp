#include "train/commands/load_transformer.h"

#include <fmt/format.h>

#include <filesystem>

#include "engine/files/file.h"
#include "train/checkpoints/checkpoint.h"

namespace foldgrad {

std::unique_ptr<Transformer> load_transformer(const std::string& path, DType dtype, Device device,
                                              NonFinite non_finite) {
  return require_transformer(load_model(path, dtype, device, non_finite), path);
}

std::unique_ptr<Transformer> require_transformer(std::unique_ptr<Model> model, const std::string& path) {
  if (!dynamic_cast<Transformer*>(model.get()))
    throw CheckpointError(
        fmt::format("{}: must hold a transformer, got {}", find_model_directory(path), model->family()));
  return std::unique_ptr<Transformer>(static_cast<Transformer*>(model.release()));
}

Vocabulary load_vocabulary(const std::string& path, const TransformerConfig& config) {
  const std::string directory = find_model_directory(path) + "/vocabulary";
  if (!std::filesystem::exists(directory))
    throw CheckpointError(directory + ": is missing: this model takes and gives ids, no text");
  try {
    Vocabulary vocabulary = Vocabulary::load(directory);
    if (vocabulary.source_size() != config.source_vocabulary || vocabulary.target_size() != config.target_vocabulary)
      throw FileError(directory,
                      fmt::format("must have {} and {} entries by config.json, got {} and {}", config.source_vocabulary,
                                  config.target_vocabulary, vocabulary.source_size(), vocabulary.target_size()));
    return vocabulary;
  } catch (const FileError& e) {
    throw CheckpointError(e.what());
  }
}

}  // namespace foldgrad
