#pragma once
#include "models/cct/cct.h"
#include "models/images/onnx_export.h"

namespace foldgrad {

// As write_image_onnx.
std::vector<std::string> write_onnx(Cct& model, const std::string& directory);

}  // namespace foldgrad
