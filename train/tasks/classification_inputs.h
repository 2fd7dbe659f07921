// Inputs and results of `foldgrad run` for an image classifier.
#pragma once
#include <optional>

#include "models/images/model.h"
#include "train/tasks/families.h"

namespace foldgrad {

// An image classifier's classes in config.json; null for any other model.
struct ImageClasses {
  std::int64_t size = 0;             // of a side of the images
  std::vector<std::string> classes;  // their names; where it has none, "class 0", "class 1", ...
};
std::optional<ImageClasses> image_classes(const Model& model);

// images, [images, S, S, 3]: u8, or f32 or f64 and normalized already.
NamedTensors read_image_inputs(const Model& model, const std::string& path);

// logits [images, classes].
NamedTensors classification_results(Model& model, const NamedTensors& inputs, const ForwardPass& pass);

}  // namespace foldgrad
