// The functions of the row of classification (families.h), and the classes of a model that classifies images.
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

// In batches of train.batch images. Throws what read_split() throws, and std::invalid_argument for images of another
// size or other classes than the model's.
Evaluation evaluate_classification(Model& model, const ModelData& data, const EvaluationOptions& options);

// The images that runs validate on.
ExampleSet image_examples(const Model& model, const ModelData& data);

// At inference the other images of a batch change no logit of the first four; f64 on one device. Skipped for one image.
std::vector<CheckResult> check_classification(Model& model, Model& folded, const NamedTensors& inputs);

}  // namespace foldgrad
