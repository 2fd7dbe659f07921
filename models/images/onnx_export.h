// A model that tells images apart as a file of ONNX, model.onnx: pixel_values [batch, 3, S, S], normalized, to logits
// [batch, classes]. docs/onnx.md has what its metadata say.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "models/images/model.h"
#include "models/onnx/graph.h"

namespace foldgrad {

// From pixel_values to [batch, width, height, width of the maps], whose places are the tokens of an image.
using OnnxStem = std::function<std::string(OnnxGraph& g, const std::string& pixel_values)>;

// Returns the names of the files. Creates `directory`; a file that is there is replaced, once all could be written.
// Throws std::invalid_argument unless the model is f32 on the CPU, for a normalizer with statistics over the tokens of
// an image, and for weights of 2 GiB or more; FileError; std::runtime_error where onnx_available() is false.
std::vector<std::string> write_image_onnx(ImageModel& model, const OnnxStem& stem, const std::string& directory);

// A convolution of the stem.
std::string onnx_conv(OnnxGraph& g, const ConvLayer& conv, std::int64_t stride, std::int64_t padding,
                      const std::string& x);

}  // namespace foldgrad
