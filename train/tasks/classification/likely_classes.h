// Classifies images, for `foldgrad classify`.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "models/images/model.h"
#include "train/checks/finite.h"

namespace foldgrad {

using LikelyClasses = std::vector<std::pair<std::string, double>>;  // class and probability, the most likely first

// Returns the names of the model's classes. A class without a name is called by its index, for example "class 7".
std::vector<std::string> class_names(const ImageModel& model);

// Returns the `count` most likely classes of each image. `images` is u8 [images, S, S, 3] on the CPU, where S is the
// model's image_size. Among equal logits, the first counts as the largest; NaN counts as the smallest. Throws
// std::invalid_argument if the images do not have this shape, and NonFiniteError if a logit is not finite, unless
// `non_finite` allows that.
std::vector<LikelyClasses> classify(ImageModel& model, const Tensor& images, std::size_t count, NonFinite non_finite);

}  // namespace foldgrad
