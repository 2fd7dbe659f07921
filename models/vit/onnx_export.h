#pragma once
#include "models/images/onnx_export.h"
#include "models/vit/vit.h"

namespace foldgrad {

// As write_image_onnx.
std::vector<std::string> write_onnx(Vit& model, const std::string& directory);

}  // namespace foldgrad
