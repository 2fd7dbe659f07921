#include "train/tasks/classification_inputs.h"

#include "engine/files/file.h"
#include "engine/files/safetensors.h"
#include "train/checks/finite.h"

namespace foldgrad {

std::optional<ImageClasses> image_classes(const Model& model) {
  const auto config = model_json(model).value("model", nlohmann::ordered_json::object());
  if (!config.contains("image_size") || !config.contains("classes")) return std::nullopt;
  ImageClasses images{config.at("image_size"), config.value("class_names", std::vector<std::string>())};
  if (images.classes.empty())
    for (std::int64_t k = 0; k < config.at("classes").get<std::int64_t>(); ++k)
      images.classes.push_back(fmt::format("class {}", k));
  return images;
}

NamedTensors read_image_inputs(const Model& model, const std::string& path) {
  const std::int64_t S = static_cast<const ImageModel&>(model).config().image_size;
  const NamedTensors tensors = read_safetensors(path).tensors;
  for (const auto& [name, tensor] : tensors)
    if (name != "images") throw FileError(path, fmt::format("must hold images alone, got {}", name));
  const auto found = tensors.find("images");
  if (found == tensors.end()) throw FileError(path, fmt::format("must have a tensor images [images, {}, {}, 3]", S, S));
  const Tensor& t = found->second;
  const bool known = t.dtype() == DType::u8 || t.dtype() == DType::f32 || t.dtype() == DType::f64;
  if (!known || t.size() == 0 || t.shape().rank() != 4 || t.shape() != Shape{t.shape()[0], S, S, kImageChannels})
    throw FileError(path, fmt::format("images must be u8, f32 or f64 [images, {}, {}, 3], got {}", S, S, describe(t)));
  if (const std::string bad = first_non_finite(t); !bad.empty())
    throw FileError(path, fmt::format("images must be finite, got {}", bad));
  return tensors;
}

NamedTensors classification_results(Model& model, const NamedTensors& inputs, const ForwardPass& pass) {
  return {{"logits", model.forward(inputs, pass).value()}};
}

}  // namespace foldgrad
