#include "models/cct/cct.h"

#include "ops/activation/activation.h"
#include "ops/conv2d/conv2d.h"
#include "ops/max_pool2d/max_pool2d.h"
#include "ops/reshape/reshape.h"

namespace foldgrad {
namespace {

std::string layer_name(std::int64_t conv) { return "tokenizer.conv_layers." + std::to_string(conv); }

}  // namespace

Cct::Cct(const CctConfig& config, std::optional<std::uint64_t> seed, DType dtype, Device device)
    : ImageFamily(config,
                  {.stem = "tokenizer",
                   .cls = "classifier.class_emb",
                   .positions = "classifier.positional_emb",
                   .norm = "classifier.norm",
                   .attention_pool = "classifier.attention_pool",
                   .head = "classifier.fc"},
                  validated(config).tokens(), dtype, device) {
  const BlockMaker make{config_, dtype, device, config.layers, 0};
  for (std::int64_t i = 0; i < config.convs; ++i) {
    const std::int64_t in = i == 0 ? kImageChannels : config.channels(i - 1), out = config.channels(i);
    ConvLayer& conv = add_conv(layer_name(i) + ".0", {out, in, config.kernel, config.kernel}, config.conv_bias());
    if (config.hybrid()) conv.norm = make.normalizer(layer_name(i) + ".norm", out);
  }
  const NormPlace place = config.block == "cct" ? NormPlace::stream : NormPlace::pre;
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::string name = "classifier.blocks." + std::to_string(i);
    const FeedForwardNames mlp{
        .prefix = name, .scope = name + ".mlp", .norm = name + ".norm1", .fc1 = "linear1", .fc2 = "linear2"};
    const BlockMaker layer = make.at_layer(i, config.layers);
    layers().push_back(
        {{layer, {.scope = name + ".self_attn", .norm = name + ".pre_norm"}, config.qkv_bias}, {layer, mlp, place}});
  }
  finish(seed);
}

Var Cct::tokens(const Var& pixels, const ForwardPass& pass) {
  Var x = pixels;
  for (std::int64_t i = 0; i < config_.convs; ++i) {
    const Var y = conv(x, i, pass);  // [CCT-1]
    const Tape::Scope scope(pass.tape, layer_name(i));
    x = config_.pooled(i)
            ? max_pool2d(y, {.kernel = config_.hybrid() ? 2 : 3, .stride = 2, .padding = config_.hybrid() ? 0 : 1})
            : y;
  }
  const Shape& s = x.shape();
  const Tape::Scope scope(pass.tape, "tokenizer");
  return reshape(x, {s[0], s[1] * s[2], s[3]});
}

// Applies one convolution of the stem and the operations that follow it, except the pooling.
Var Cct::conv(const Var& x, std::int64_t index, const ForwardPass& pass) {
  ConvLayer& layer = stem()[std::size_t(index)];
  const auto convolved = [&](std::optional<Activation> activation) {
    const Tape::Scope scope(pass.tape, layer_name(index));
    const Conv2dChannelsLastOptions options{
        .stride = config_.stride(), .padding = config_.padding(), .activation = activation};
    const Var W = pass.use(layer.weight);
    if (!layer.bias.value.defined()) return conv2d_channels_last(x, W, options);
    const Var b = pass.use(layer.bias);
    return conv2d_channels_last(x, W, b, options);
  };
  if (!layer.norm) return convolved(Activation::relu);
  const Var u = convolved({});
  const Shape s = u.shape();
  // Normalizers treat pixels as tokens.
  const Segments rows = Segments::equal(s[0], s[1] * s[2]).to(u.device());
  const Var normalized = layer.norm->apply(reshape(u, {s[0] * s[1] * s[2], s[3]}), pass.norm(rows));
  const Tape::Scope scope(pass.tape, layer_name(index));
  const Var y = gelu(normalized);
  return reshape(y, {s[0], s[1], s[2], s[3]});
}

}  // namespace foldgrad
