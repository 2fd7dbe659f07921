#include "models/efficientnet_lite/efficientnet_lite.h"

#include <algorithm>
#include <cmath>

#include "engine/check.h"
#include "models/blocks/random_fill.h"
#include "ops/activation/activation.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/conv2d/conv2d.h"
#include "ops/reshape/reshape.h"

namespace foldgrad {
namespace {

struct Stage {
  std::int64_t blocks, kernel, stride, widening, channels;  // `stride` is for the first block
};
constexpr Stage kStages[] = {{1, 3, 1, 1, 16},  {2, 3, 2, 6, 24},  {2, 5, 2, 6, 40}, {3, 3, 2, 6, 80},
                             {3, 5, 1, 6, 112}, {4, 5, 2, 6, 192}, {1, 3, 1, 6, 320}};
constexpr std::int64_t kStemChannels = 32;

std::int64_t after(std::int64_t side, std::int64_t stride) { return (side + stride - 1) / stride; }

// Returns the number of pixels in the feature map of an image.
std::int64_t pixels_of(const EfficientNetLiteConfig& config) {
  std::int64_t side = after(config.image_size, 2);
  for (const Stage& stage : kStages) side = after(side, stage.stride);
  return side * side;
}

}  // namespace

EfficientNetLiteConfig::EfficientNetLiteConfig() {
  pre_norm = false;  // no normalizer follows the last layer
  normalizer = "bn", normalizer_options = {{"alpha", "0.99"}, {"eps", "0.001"}};
}

void EfficientNetLiteConfig::validate() const {
  FOLDGRAD_CHECK(!normalizer_info(normalizer).post_norm_only,
                 "efficientnet_lite: normalizer must not require post-norm, got {}", normalizer);
  ImageModelConfig::validate("efficientnet_lite");
}

EfficientNetLite::EfficientNetLite(const EfficientNetLiteConfig& config, std::optional<std::uint64_t> seed, DType dtype,
                                   Device device)
    : ImageFamily(config, {.stem = "conv_stem", .norm = "", .head = "fc"},
                  Shape{pixels_of(validated(config)), kHeadChannels}, dtype, device) {
  add_step({"conv_stem", 2, 1, true, false}, "bn0", kImageChannels, kStemChannels, 3);
  std::int64_t in = kStemChannels, number = 0;
  for (const Stage& stage : kStages)
    for (std::int64_t i = 0; i < stage.blocks; ++i) {
      const std::string block = "blocks." + std::to_string(number++) + ".";
      const std::int64_t stride = i == 0 ? stage.stride : 1, wide = stage.widening * in;
      if (wide != in) add_step({block + "expand_conv", 1, 1, true, false}, block + "bn0", in, wide, 1);
      add_step({block + "depthwise_conv", stride, wide, true, false}, block + "bn1", wide, wide, stage.kernel);
      add_step({block + "project_conv", 1, 1, false, stride == 1 && in == stage.channels}, block + "bn2", wide,
               stage.channels, 1);
      in = stage.channels;
    }
  add_step({"conv_head", 1, 1, true, false}, "bn1", in, kHeadChannels, 1);
  finish(seed);
}

void EfficientNetLite::add_step(const Step& step, const std::string& norm, std::int64_t in, std::int64_t out,
                                std::int64_t kernel) {
  ConvLayer& conv = add_conv(step.scope, {out, in / step.groups, kernel, kernel}, config_.conv_bias);
  conv.norm = BlockMaker{config_, dtype(), device(), 0, 0}.normalizer(norm, out);
  steps_.push_back(step);
}

void EfficientNetLite::list(ModelParts& parts) {
  parts.add(stem());
  list_head(parts);
}

void EfficientNetLite::initialize(std::uint64_t seed) {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    Parameter& weight = stem()[i].weight;
    const Shape& w = weight.value.shape();
    fill_normal(weight, std::sqrt(2.0 * double(steps_[i].groups) / double(w[0] * w[2] * w[3])), seed);
  }
  fill_uniform(head().weight, 1 / std::sqrt(double(config_.classes)), seed);
}

Var EfficientNetLite::convolved(std::size_t number, const Var& x, const ForwardPass& pass) {  // [EFF-1]
  const Step& step = steps_[number];
  ConvLayer& layer = stem()[number];
  const std::int64_t side = x.shape()[1], kernel = layer.weight.value.shape()[2],
                     zeros = std::max<std::int64_t>((after(side, step.stride) - 1) * step.stride + kernel - side, 0);
  const Conv2dChannelsLastOptions options{
      .stride = step.stride, .padding = zeros / 2, .groups = step.groups, .extra_padding = zeros % 2};
  const Var u = [&] {
    const Tape::Scope scope(pass.tape, step.scope);
    const Var W = pass.use(layer.weight);
    if (!layer.bias.value.defined()) return conv2d_channels_last(x, W, options);
    const Var b = pass.use(layer.bias);
    return conv2d_channels_last(x, W, b, options);
  }();
  const Shape s = u.shape();
  const Segments rows = segments(s[0], s[1] * s[2], pass);
  const Var normalized = layer.norm->apply(reshape(u, {s[0] * s[1] * s[2], s[3]}), pass.norm(rows));
  const Tape::Scope scope(pass.tape, step.scope);
  const Var y = step.activates ? relu6(normalized) : normalized;
  return reshape(y, {s[0], s[1], s[2], s[3]});
}

Var EfficientNetLite::features(const Var& pixels, const ForwardPass& pass) {  // [EFF-2]
  Var block = pixels, x = pixels;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    x = convolved(i, x, pass);
    if (steps_[i].activates && i > 0) continue;  // this step is not the block's last
    if (steps_[i].adds_input) {
      const Tape::Scope scope(pass.tape, steps_[i].scope);
      x = add(block, x);
    }
    block = x;
  }
  return reshape(x, {x.shape().without(-1).elements(), kHeadChannels});  // [EFF-3]
}

std::unique_ptr<Model> EfficientNetLite::foldable() {
  if (config_.conv_bias) return nullptr;
  return altered([](ImageModelConfig& c) { static_cast<EfficientNetLiteConfig&>(c).conv_bias = true; }, values());
}

}  // namespace foldgrad
