#include "models/cct/onnx_export.h"

#include "models/onnx/layers.h"

namespace foldgrad {
namespace {

using Sizes = std::vector<std::int64_t>;

std::string max_pool(OnnxGraph& g, std::int64_t kernel, std::int64_t padding, const std::string& x) {
  return g.node("MaxPool", {x},
                {{"kernel_shape", Sizes{kernel, kernel}},
                 {"strides", Sizes{2, 2}},
                 {"pads", Sizes{padding, padding, padding, padding}}});
}

// The nodes of a normalizer want the channels last.
std::string normalized(OnnxGraph& g, const CctConfig& config, const ConvLayer& conv, std::int64_t index,
                       const std::string& x) {
  const std::int64_t C = config.channels(index), side = config.side_of_conv(index);
  const std::string flat = g.node("Reshape", {x, g.integers({0, C, side * side})});
  const std::string rows = g.node("Transpose", {flat}, {{"perm", Sizes{0, 2, 1}}});
  const std::string norm = onnx_normalizer(g, conv.norm.get(), rows);
  g.at("stem");
  const std::string y = onnx_activation(g, Activation::gelu, norm);
  const std::string back = g.node("Transpose", {y}, {{"perm", Sizes{0, 2, 1}}});
  return g.node("Reshape", {back, g.integers({0, C, side, side})});
}

}  // namespace

std::vector<std::string> write_onnx(Cct& model, const std::string& directory) {
  const CctConfig& config = model.config();
  const auto stem = [&](OnnxGraph& g, const std::string& pixel_values) {  // [CCT-1]
    std::string x = pixel_values;
    for (std::int64_t i = 0; i < config.convs; ++i) {
      const ConvLayer& conv = model.stem()[std::size_t(i)];
      x = onnx_conv(g, conv, config.stride(), config.padding(), x);
      x = conv.norm ? normalized(g, config, conv, i, x) : g.node("Relu", {x});
      if (config.pooled(i)) x = config.hybrid() ? max_pool(g, 2, 0, x) : max_pool(g, 3, 1, x);
    }
    return x;
  };
  return write_image_onnx(model, stem, directory);
}

}  // namespace foldgrad
