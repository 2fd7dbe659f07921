// Names what images show, as `foldgrad classify` does.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "models/images/model.h"
#include "train/checks/finite.h"

namespace foldgrad {

using LikelyClasses = std::vector<std::pair<std::string, double>>;  // class and probability, likeliest first

// Returns the names of the model's classes. A class without a name is called "class 7".
std::vector<std::string> class_names(const ImageModel& model);

// Returns the `count` likeliest classes of each image, u8 [images, S, S, 3] on the CPU, where S is the model's
// image_size. Of equal logits the first counts as larger; NaN counts as smallest. Throws std::invalid_argument for
// images of another shape, NonFiniteError.
std::vector<LikelyClasses> classify(ImageModel& model, const Tensor& images, std::size_t count, NonFinite non_finite);

}  // namespace foldgrad
