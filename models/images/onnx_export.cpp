#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "models/fold/model.h"
#include "models/images/model.h"
#include "models/onnx/graph.h"
#include "models/onnx/recording.h"

namespace foldgrad {

std::string onnx_patches(OnnxGraph& g, const std::string& pixels, std::int64_t image_size, std::int64_t patch) {
  const std::int64_t n = image_size / patch;
  const std::string cut = g.reshape(pixels, {kImageChannels, n, patch, n, patch});
  return g.reshape(g.transpose(cut, {0, 2, 4, 1, 3, 5}), {n * n, kImageChannels * patch * patch});
}

std::string ImageModel::onnx_stem(OnnxGraph& g, const std::string& pixels) const {
  return g.transpose(pixels, {0, 2, 3, 1});
}

std::vector<std::string> ImageModel::write_onnx(const std::string& directory) {
  require_exportable(*this, "an image; ONNX has no nodes for such statistics");
  const ImageModelConfig& config = this->config();
  OnnxFile g("model");
  g.metadata("image_mean", fmt::format("{}", fmt::join(config.pixels.mean, " ")));
  g.metadata("image_std", fmt::format("{}", fmt::join(config.pixels.std, " ")));
  g.metadata("classes", fmt::format("{}", fmt::join(config.class_names, "\n")));

  const std::string batch = "batch_size";
  const std::int64_t S = config.image_size;
  const std::string pixels = g.input("pixel_values", DType::f32, {batch, kImageChannels, S, S});
  const Graph graph = graph_of(*this);
  g.at("stem");
  OnnxRecording nodes(g, *this, graph);
  const auto first = std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const GraphNode& node) {
    return graph.values[std::size_t(node.operands[0])].parameter.empty();  // skips nodes that compute a weight
  });
  nodes.give(first->operands[0], onnx_stem(g, pixels));
  g.output(nodes.add(), "logits", DType::f32, {batch, config.classes});

  make_directories(directory);  // comes after everything that can throw std::invalid_argument
  AtomicFile file(directory + "/model.onnx");
  g.write(file);
  file.commit();
  return {"model.onnx"};
}

}  // namespace foldgrad
