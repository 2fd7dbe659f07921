#include "models/images/onnx_export.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/check.h"
#include "engine/files/atomic_file.h"
#include "models/onnx/layers.h"

namespace foldgrad {
namespace {

const std::string kBatch = "batch_size";

class ImageNodes {
 public:
  ImageNodes(ImageModel& model, OnnxGraph& g) : model_(model), config_(model.config()), g_(g) {
    g.metadata("image_mean", fmt::format("{}", fmt::join(config_.pixels.mean, " ")));
    g.metadata("image_std", fmt::format("{}", fmt::join(config_.pixels.std, " ")));
    g.metadata("classes", fmt::format("{}", fmt::join(config_.class_names, "\n")));
  }

  void build(const OnnxStem& stem) {
    const std::int64_t S = config_.image_size;
    g_.at("stem");
    std::string x = embed(stem(g_, g_.input("pixel_values", DType::f32, {kBatch, kImageChannels, S, S})));
    for (ImageLayer& layer : model_.layers()) {
      x = onnx_sublayer(g_, layer.attention.sublayer, x,
                        [&](const std::string& in) { return attention(layer.attention, in); });
      x = onnx_sublayer(g_, layer.feed_forward.sublayer, x, [&](const std::string& in) {
        return onnx_activation(g_, config_.activation_function(), onnx_linear(g_, layer.feed_forward.fc1, in));
      });
    }
    x = onnx_normalizer(g_, model_.norm(), x);
    g_.at("head");
    g_.output(onnx_linear(g_, model_.head(), pooled(x)), "logits", DType::f32, {kBatch, config_.classes});
  }

 private:
  using Sizes = std::vector<std::int64_t>;

  std::string of(const Parameter& p) { return g_.initializer(p.name, p.value); }

  // [VIT-1]
  std::string embed(const std::string& maps) {
    g_.at("tokens");
    const std::string rows = g_.node("Reshape", {maps, g_.integers({0, config_.width, -1})});
    std::string x = g_.node("Transpose", {rows}, {{"perm", Sizes{0, 2, 1}}});
    if (const Parameter* cls = model_.cls()) {
      const std::string batch = g_.node("Shape", {x}, {{"start", std::int64_t(0)}, {"end", std::int64_t(1)}});
      const std::string sizes = g_.node("Concat", {batch, g_.integers({1, 1})}, {{"axis", std::int64_t(0)}});
      const std::string first = g_.node("Expand", {of(*cls), sizes});
      x = g_.node("Concat", {first, x}, {{"axis", std::int64_t(1)}});
    }
    return g_.node("Add", {x, of(model_.positions())});
  }

  std::string attention(const PackedAttentionBlock& block, const std::string& x) {
    const std::int64_t C = config_.width;
    const std::string qkv = onnx_linear(g_, block.qkv, x);
    const auto part = [&](std::int64_t i) {
      const std::string columns =
          g_.node("Slice", {qkv, g_.integers({i * C}), g_.integers({(i + 1) * C}), g_.integers({2})});
      return onnx_split_heads(g_, columns, config_.heads, C);
    };
    const std::string q = part(0), k = part(1), v = part(2);
    return onnx_attention(g_, q, k, v, "", C / config_.heads, C);
  }

  // [VIT-2]
  std::string pooled(const std::string& x) {
    if (config_.has_cls()) return g_.node("Gather", {x, g_.integer(0)}, {{"axis", std::int64_t(1)}});
    if (!model_.attention_pool())
      return g_.node("ReduceMean", {x}, {{"axes", Sizes{1}}, {"keepdims", std::int64_t(0)}});
    const std::string scores = onnx_linear(g_, *model_.attention_pool(), x);  // [CCT-3]
    const std::string weights = g_.node("Softmax", {scores}, {{"axis", std::int64_t(1)}});
    const std::string weighted = g_.node("Mul", {weights, x});
    return g_.node("ReduceSum", {weighted, g_.integers({1})}, {{"keepdims", std::int64_t(0)}});
  }

  ImageModel& model_;
  const ImageModelConfig& config_;
  OnnxGraph& g_;
};

}  // namespace

std::vector<std::string> write_image_onnx(ImageModel& model, const OnnxStem& stem, const std::string& directory) {
  FOLDGRAD_CHECK(model.device() == Device::cpu && model.dtype() == DType::f32,
                 "onnx: the model must be f32 on cpu, got {} on {}", name(model.dtype()), name(model.device()));
  for (const Normalizer* norm : model.normalizers())
    FOLDGRAD_CHECK(!norm->mixes_tokens(),
                   "onnx: {} ({}) has statistics over the tokens of an image, for which there are no nodes",
                   norm->site(), norm->info().name);
  const auto graph = OnnxGraph::make("model");
  ImageNodes(model, *graph).build(stem);
  make_directories(directory);  // only now, when nothing can be refused any more
  AtomicFile file(directory + "/model.onnx");
  graph->write(file);
  file.commit();
  return {"model.onnx"};
}

std::string onnx_conv(OnnxGraph& g, const ConvLayer& conv, std::int64_t stride, std::int64_t padding,
                      const std::string& x) {
  using Sizes = std::vector<std::int64_t>;
  const Shape& shape = conv.weight.value.shape();
  std::vector<std::string> inputs{x, g.initializer(conv.weight.name, conv.weight.value)};
  if (conv.bias.value.defined()) inputs.push_back(g.initializer(conv.bias.name, conv.bias.value));
  return g.node("Conv", inputs,
                {{"kernel_shape", Sizes{shape[2], shape[3]}},
                 {"strides", Sizes{stride, stride}},
                 {"pads", Sizes{padding, padding, padding, padding}}});
}

}  // namespace foldgrad
