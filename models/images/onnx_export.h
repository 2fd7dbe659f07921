// An image model as a file of ONNX, model.onnx: pixel_values [batch, 3, S, S], normalized, to logits [batch, classes].
// docs/onnx.md describes its metadata.
#pragma once
#include <string>
#include <vector>

#include "models/images/model.h"

namespace foldgrad {

// Returns the names of the files. Creates `directory`; a file that is there is replaced once all could be written.
// Throws std::invalid_argument unless the model is f32 on the CPU, for a normalizer with statistics over the tokens of
// an image, and for weights of 2 GiB or more; FileError; std::runtime_error if onnx_available() is false.
std::vector<std::string> write_onnx(ImageModel& model, const std::string& directory);

}  // namespace foldgrad
