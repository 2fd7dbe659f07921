#include "models/vit/onnx_export.h"

namespace foldgrad {

std::vector<std::string> write_onnx(Vit& model, const std::string& directory) {
  const auto patches = [&](OnnxGraph& g, const std::string& pixel_values) {
    return onnx_conv(g, model.stem()[0], model.config().patch, 0, pixel_values);
  };
  return write_image_onnx(model, patches, directory);
}

}  // namespace foldgrad
