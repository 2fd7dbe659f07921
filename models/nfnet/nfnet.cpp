#include "models/nfnet/nfnet.h"

#include <cmath>
#include <numeric>

#include "models/blocks/random_fill.h"
#include "ops/activation/activation.h"
#include "ops/affine/affine.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/cast/cast.h"
#include "ops/gate/gate.h"
#include "ops/reshape/reshape.h"
#include "ops/weight_standardize/weight_standardize.h"
#include "ops/weighted_pool/weighted_pool.h"

namespace foldgrad {
namespace {

constexpr double kGain = 1.7015043497085571, kAlpha = 0.2;  // [NF-1] [NF-3]
constexpr std::size_t kStemConvs = 4;

// Averages squares of 2 x 2 pixels. If the side of a map is odd, pads it with zeros, which enter the average.
Var averaged(const Var& x, const std::string& name, const ForwardPass& pass) {
  const Tape::Scope scope(pass.tape, name);
  const std::int64_t C = x.shape()[3];
  const Var quarters = pass.tape.constant(Tensor::full({C, 1, 2, 2}, 0.25, x.dtype(), x.device()));
  return conv2d_channels_last(x, quarters, {.stride = 2, .padding = x.shape()[1] % 2, .groups = C});
}

}  // namespace

NfNet::NfNet(const NfNetConfig& config, std::optional<std::uint64_t> seed, DType dtype, Device device)
    : ImageFamily(config, {.stem = "stem.conv1", .norm = "", .head = "head.fc"},
                  Shape{validated(config).side() * config.side(), 2 * config.channels.back()}, dtype, device),
      activation_(config.activation_function()) {
  const std::int64_t C = config.channels[0];
  add_conv("stem.conv1", kImageChannels, C / 16, 3, config.stem_stride);
  add_conv("stem.conv2", C / 16, C / 8, 3);
  add_conv("stem.conv3", C / 8, C / 4, 3);
  add_conv("stem.conv4", C / 4, C / 2, 3, 2);
  double variance = 1;
  for (std::size_t stage = 0; stage < config.channels.size(); ++stage) make_stage(stage, variance);
  add_conv("final_conv", config.channels.back(), 2 * config.channels.back(), 1);
  finish(seed);
}

void NfNet::add_conv(const std::string& name, std::int64_t in, std::int64_t out, std::int64_t kernel,
                     std::int64_t stride, std::int64_t groups) {
  const bool same = config_.padding == "same", around = kernel == 3 && (same ? stride == 1 : !blocks_.empty());
  convs_.push_back(
      {make_conv(name, {out, in / groups, kernel, kernel}, /*with_bias=*/true),
       name,
       {name + ".gain", config_.standardization == "none" ? Tensor() : Tensor::full({out}, 1, dtype(), device())},
       {.stride = stride, .padding = around, .groups = groups, .extra_padding = same && stride == 2}});
  convs_.back().norm = BlockMaker{config_, dtype(), device(), 0, 0}.normalizer(name + ".norm", out);
}

void NfNet::make_stage(std::size_t stage, double& variance) {
  const double blocks = double(std::accumulate(config_.depths.begin(), config_.depths.end(), std::int64_t(0)));
  const std::int64_t out = config_.channels[stage], inner = out / 2, groups = inner / config_.group_size;
  for (std::int64_t b = 0; b < config_.depths[stage]; ++b) {
    const bool is_first = b == 0;
    const std::int64_t in = !is_first ? out : stage == 0 ? out / 2 : config_.channels[stage - 1];
    const std::string name = "stages." + std::to_string(stage) + "." + std::to_string(b);
    blocks_.push_back({name,
                       is_first,
                       convs_.size(),
                       {name + ".attn_last.fc1", out, inner, dtype(), device()},
                       {name + ".attn_last.fc2", inner, out, dtype(), device()},
                       {name + ".skipinit_gain", Tensor::zeros({1}, dtype(), device())},
                       1 / std::sqrt(variance),
                       config_.drop_path * double(blocks_.size()) / blocks});
    variance = (is_first ? 1 : variance) + kAlpha * kAlpha;  // [NF-4]
    if (is_first) add_conv(name + ".downsample.conv", in, out, 1);
    add_conv(name + ".conv1", in, inner, 1);
    add_conv(name + ".conv2", inner, inner, 3, is_first && stage > 0 ? 2 : 1, groups);
    add_conv(name + ".conv2b", inner, inner, 3, 1, groups);
    add_conv(name + ".conv3", inner, out, 1);
  }
}

void NfNet::list(ModelParts& parts) {
  std::size_t next = 0;
  const auto add_until = [&](std::size_t end) {
    for (; next < end; ++next) {
      Conv& conv = convs_[next];
      parts.add(conv.weight, conv.bias, conv.gain, conv.norm);
    }
  };
  add_until(kStemConvs);
  for (Block& b : blocks_) {
    add_until(b.first + (b.projects ? 5 : 4));
    parts.add(b.fc1, b.fc2, b.skip_gain);
  }
  add_until(convs_.size());
  list_head(parts);
}

void NfNet::initialize(std::uint64_t seed) {
  const bool port = config_.initialization == "port";
  const auto fill_bias = [&](Parameter& bias, double in) {
    if (port) fill_uniform(bias, 1 / std::sqrt(in), seed);
  };
  for (Conv& conv : convs_) {
    const Shape& w = conv.weight.value.shape();
    const double in = double(w.without(0).elements()), out = double(w.without(1).elements());
    fill_normal(conv.weight, std::sqrt(port ? 2 / (in + out) : 1 / in), seed);
    fill_bias(conv.bias, in);
  }
  for (Block& b : blocks_)
    for (LinearLayer* layer : {&b.fc1, &b.fc2}) {
      const double in = double(layer->weight.value.shape()[1]);
      (port ? fill_uniform : fill_normal)(layer->weight, 1 / std::sqrt(in), seed);
      fill_bias(layer->bias, in);
    }
  fill_normal(head().weight, 0.01, seed);
  fill_bias(head().bias, double(head().weight.value.shape()[1]));
}

Var NfNet::standardized(Conv& conv, double factor, const ForwardPass& pass) const {
  const Var W = pass.tape.parameter(conv.weight);
  const Var g = scale(pass.tape.parameter(conv.gain), factor);
  return cast(weight_standardize(W, g, {.unbiased = config_.standardization == "unbiased"}), pass.dtype);
}

Var NfNet::activated(const Var& x, const std::string& name, const ForwardPass& pass) const {
  const Tape::Scope scope(pass.tape, name);
  return activate(x, activation_);
}

// Convolves factor * x.
Var NfNet::convolve(Conv& conv, const Var& x, double factor, const ForwardPass& pass) {  // [NF-2]
  const Var u = [&] {
    const Tape::Scope scope(pass.tape, conv.name);
    const bool has_gain = conv.gain.value.defined();
    const Var in = has_gain || factor == 1 ? x : scale(x, factor);
    const Var W = has_gain ? standardized(conv, factor, pass) : pass.use(conv.weight);
    const Var b = pass.use(conv.bias);
    return conv2d_channels_last(in, W, b, conv.options);
  }();
  const Shape s = u.shape();
  const Segments rows = segments(s[0], s[1] * s[2], pass);
  const Var y = conv.norm->apply(reshape(u, {rows.rows(), s[3]}), pass.norm(rows));
  return reshape(y, {s[0], s[1], s[2], s[3]});
}

Var NfNet::block(Block& block, const Var& x, const ForwardPass& pass) {  // [NF-3]
  const double factor = kGain * block.beta;
  const Var u = activated(x, block.name, pass);
  std::size_t next = block.first;
  Var shortcut = x;
  if (block.projects) {
    const bool halves = convs_[next + 2].options.stride == 2;
    const Var in = halves ? averaged(u, block.name + ".downsample.pool", pass) : u;
    shortcut = convolve(convs_[next++], in, factor, pass);
  }
  Var y = convolve(convs_[next], u, factor, pass);
  for (std::size_t k = 1; k < 4; ++k) {
    y = activated(y, block.name, pass);
    y = convolve(convs_[next + k], y, kGain, pass);
  }

  const Tape::Scope scope(pass.tape, block.name);
  const Shape s = y.shape();
  const std::int64_t B = s[0], T = s[1] * s[2], C = s[3];
  const double p = pass.dropout(block.drop_path);
  const Var r = reshape(y, {B, T, C});
  Var w = mean_pool(r);
  w = block.fc1(w, pass);
  w = activate(w, config_.gate_activation == "relu" ? Activation::relu : activation_);
  if (config_.gate_activation != "relu") w = scale(w, kGain);
  w = sigmoid(block.fc2(w, pass));
  w = scale(w, 2 * kAlpha * (1 - p));  // the factor 1 - p cancels the division in [DO-6]
  w = scale_by(w, pass.use(block.skip_gain));
  const Var gated = gate(r, w);
  if (p == 0) return add(reshape(gated, {B, s[1], s[2], C}), shortcut);
  const Var branch = reshape(gated, {B * T, C});
  const Var stream = reshape(shortcut, {B * T, C});
  const Var no_bias = pass.tape.constant(Tensor::zeros({C}, branch.dtype(), device()));
  const Var sum = bias_dropout_residual(
      branch, no_bias, stream, 0, {},
      {p, pass.random(random_stream(block.name + ".drop_path")), T, segments(B, T, pass).first_segment()});
  return reshape(sum, {B, s[1], s[2], C});
}

Var NfNet::features(const Var& pixels, const ForwardPass& pass) {  // [NF-5]
  Var x = convolve(convs_[0], pixels, 1, pass);
  for (std::size_t k = 1; k < kStemConvs; ++k) {
    x = activated(x, "stem", pass);
    x = convolve(convs_[k], x, kGain, pass);
  }
  for (Block& b : blocks_) x = block(b, x, pass);
  x = convolve(convs_.back(), x, 1, pass);
  x = activated(x, "final_conv", pass);
  return reshape(x, {x.shape().without(-1).elements(), x.shape()[3]});
}

Var NfNet::pooled(const Var& x, std::int64_t images, const ForwardPass& pass) {
  const Var mean = ImageModel::pooled(x, images, pass);
  const Var gained = scale(mean, kGain);
  const std::int64_t first = segments(images, 1, pass).first_row();
  return dropout(gained, pass.dropout(config_.dropout),
                 pass.random(random_stream("head.dropout"), first, gained.shape()[1]));
}

std::unique_ptr<Model> NfNet::foldable() {
  if (config_.standardization == "none") return nullptr;
  Tape tape(/*recording=*/false);
  NamedTensors from = values();
  for (Conv& conv : convs_) from[conv.weight.name] = standardized(conv, 1, {.tape = tape, .dtype = dtype()}).value();
  return altered([](ImageModelConfig& c) { static_cast<NfNetConfig&>(c).standardization = "none"; }, from);
}

}  // namespace foldgrad
