// The row of classification in the table of families (families.h), and the classes of a model that classifies images.
#pragma once
#include <optional>

#include "train/tasks/families.h"

namespace foldgrad {

// Files for `foldgrad run` hold images, [images, S, S, 3]: u8, or f32 or f64 and normalized already. Evaluation is in
// batches of train.batch images. Examples are the images that runs validate on. Both throw what read_split() throws,
// and std::invalid_argument for images of another size or other classes than the model's.
extern const TaskKind kClassification;

// An image classifier's classes in config.json; null for any other model.
struct ImageClasses {
  std::int64_t size = 0;             // of a side of the images
  std::vector<std::string> classes;  // their names; where it has none, "class 0", "class 1", ...
};
std::optional<ImageClasses> image_classes(const Model& model);

}  // namespace foldgrad
