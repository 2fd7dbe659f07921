#include "models/convnext/convnext.h"

#include <numeric>

#include "models/blocks/random_fill.h"
#include "models/fold/model.h"
#include "ops/activation/activation.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/conv2d/conv2d.h"
#include "ops/linear/linear.h"
#include "ops/reshape/reshape.h"

namespace foldgrad {
namespace {

constexpr double kInitialGamma = 1e-6;

// Convolves images `x`, [B, side, side, C] or [B * side^2, C], and returns one row per pixel.
Var convolve(ConvLayer& layer, const Var& x, std::int64_t side, const Conv2dChannelsLastOptions& options,
             const ForwardPass& pass) {
  const std::int64_t C = x.shape()[-1], images = x.shape().elements() / (side * side * C);
  const Var W = pass.use(layer.weight);
  const Var b = pass.use(layer.bias);
  const Var y = conv2d_channels_last(reshape(x, {images, side, side, C}), W, b, options);
  return reshape(y, {y.shape().without(-1).elements(), y.shape()[3]});
}

}  // namespace

ConvNext::ConvNext(const ConvNextConfig& config, std::optional<std::uint64_t> seed, DType dtype, Device device)
    : ImageFamily(
          config, {.stem = "stem", .norm = "head.norm", .head = "head.fc"},
          Shape{validated(config).side(config.stages() - 1) * config.side(config.stages() - 1), config.channels.back()},
          dtype, device) {
  const std::int64_t C = config.channels[0];
  ConvLayer& stem = add_conv("stem.0", {C, kImageChannels, config.patch, config.patch}, /*with_bias=*/true);
  stem.norm = BlockMaker{config_, dtype, device, 0, 0}.normalizer("stem.1", C);
  for (std::int64_t stage = 0; stage < config.stages(); ++stage) add_stage(stage);
  finish(seed);
}

void ConvNext::add_stage(std::int64_t stage) {
  const std::string name = "stages." + std::to_string(stage);
  const std::int64_t C = config_.channels[stage];
  const auto first = config_.depths.begin();
  const std::int64_t before = std::accumulate(first, first + stage, std::int64_t(0)),
                     blocks = std::accumulate(first, config_.depths.end(), std::int64_t(0));
  Stage& made = stages_.emplace_back();
  const BlockMaker make{config_, dtype(), device(), 0, 0};
  if (stage > 0) {
    const std::int64_t in = config_.channels[stage - 1];
    made.downsample = make_conv(name + ".downsample.1", {C, in, 2, 2}, /*with_bias=*/true);
    made.downsample.norm = make.normalizer(name + ".downsample.0", in);
  }
  for (std::int64_t b = 0; b < config_.depths[stage]; ++b) {
    const std::string block = name + ".blocks." + std::to_string(b), gamma = block + ".gamma";
    const auto other = config_.normalizer_at.find(gamma);
    ConvLayer conv = make_conv(block + ".conv_dw", {C, 1, 7, 7}, /*with_bias=*/true);
    conv.norm = make.normalizer(block + ".norm", C);
    made.blocks.push_back({block,
                           std::move(conv),
                           {block + ".mlp.fc1", C, 4 * C, dtype(), device()},
                           {block + ".mlp.fc2", 4 * C, C, dtype(), device()},
                           make_normalizer(other == config_.normalizer_at.end() ? "scale" : other->second, {}, gamma, C,
                                           dtype(), device()),
                           make.at_layer(before + b, blocks).drop_path});
  }
}

void ConvNext::list(ModelParts& parts) {
  parts.add(stem());
  for (Stage& stage : stages_) {
    parts.add(stage.downsample.norm, stage.downsample.weight, stage.downsample.bias);
    for (Block& b : stage.blocks) parts.add(b.conv, b.fc1, b.fc2, b.gamma);
  }
  list_head(parts);
}

void ConvNext::initialize(std::uint64_t seed) {
  const auto fill = [seed](Parameter& weight) {
    if (weight.value.defined()) fill_normal(weight, 0.02, seed);
  };
  fill(stem()[0].weight);
  for (Stage& stage : stages_) {
    fill(stage.downsample.weight);
    for (Block& b : stage.blocks) {
      for (Parameter* weight : {&b.conv.weight, &b.fc1.weight, &b.fc2.weight}) fill(*weight);
      if (b.gamma->info().name == "scale")
        for (Parameter* p : b.gamma->parameters())
          p->value.copy_from(Tensor::full(p->value.shape(), kInitialGamma, dtype(), device()));
    }
  }
  fill(head().weight);
}

Var ConvNext::features(const Var& pixels, const ForwardPass& pass) {
  const std::int64_t B = pixels.shape()[0];
  const auto rows = [&](std::int64_t stage) { return segments(B, config_.side(stage) * config_.side(stage), pass); };
  Var x = [&] {
    const Tape::Scope scope(pass.tape, "stem.0");
    return convolve(stem()[0], pixels, config_.image_size, {.stride = config_.patch}, pass);
  }();
  x = stem()[0].norm->apply(x, pass.norm(rows(0)));  // [CNX-1]
  for (std::int64_t stage = 0; stage < config_.stages(); ++stage) {
    Stage& s = stages_[std::size_t(stage)];
    if (stage > 0) {  // [CNX-2]
      x = s.downsample.norm->apply(x, pass.norm(rows(stage - 1)));
      const Tape::Scope scope(pass.tape, "stages." + std::to_string(stage) + ".downsample.1");
      x = convolve(s.downsample, x, config_.side(stage - 1), {.stride = 2}, pass);
    }
    const Segments of_stage = rows(stage);
    for (Block& b : s.blocks) x = block(b, x, config_.side(stage), of_stage, pass);
  }
  return x;
}

Var ConvNext::block(Block& block, const Var& x, std::int64_t side, const Segments& rows,
                    const ForwardPass& pass) {  // [CNX-3]
  const NormContext context = pass.norm(rows);
  const Var u = [&] {
    const Tape::Scope scope(pass.tape, block.name + ".conv_dw");
    return convolve(block.conv, x, side, {.padding = 3, .groups = x.shape()[1]}, pass);
  }();
  const Var in = block.conv.norm->apply(u, context);
  const Var y = [&] {
    const Tape::Scope scope(pass.tape, block.name + ".mlp");
    const Var z = linear(in, block.fc1.matrix(pass));
    return block.fc2(bias_activation(z, pass.use(block.fc1.bias), Activation::gelu), pass);
  }();
  const Var branch = block.gamma->apply(y, context);
  const Tape::Scope scope(pass.tape, block.name);
  const double p = pass.dropout(block.drop_path);
  if (p == 0) return add(x, branch);
  const Var no_bias = pass.tape.constant(Tensor::zeros({x.shape()[1]}, x.dtype(), device()));
  return bias_dropout_residual(
      branch, no_bias, x, 0, {},
      {p, pass.random(random_stream(block.name + ".drop_path")), rows.longest(), rows.first_segment()});
}

// Every gamma site has the normalizer `scale` unless the configuration names another one.
std::unique_ptr<Model> ConvNext::alike(DType dtype, Device device, const FoldedGraph* folded) const {
  const Change left = [&](ImageModelConfig& changed) {
    if (!folded) return;
    set_normalizers_left(changed, *this, *folded);
    for (const Stage& stage : stages_)
      for (const Block& b : stage.blocks)
        if (!folded->sites.count(b.gamma->site())) changed.normalizer_at[b.gamma->site()] = "none";
  };
  return with(left, dtype, device);
}

}  // namespace foldgrad
