#include "models/swin/swin.h"

#include <algorithm>
#include <cmath>

#include "models/blocks/random_fill.h"
#include "models/normalizers/parameter_as.h"
#include "ops/cast/cast.h"
#include "ops/conv2d/conv2d.h"
#include "ops/embedding/embedding.h"
#include "ops/permute/permute.h"
#include "ops/positions/positions.h"
#include "ops/reshape/reshape.h"

namespace foldgrad {
namespace {

Shape features_of(const SwinConfig& config) {
  const std::int64_t last = config.stages() - 1, side = config.side_of(last);
  return {side * side, config.width_of(last)};
}

Var bias_of(Parameter& table, const MapWindows& windows, Tape& tape, DType dtype) {  // [SWIN-3]
  const std::int64_t T = windows.tokens, heads = table.value.shape()[1];
  const Var rows = parameter_as(tape, table, dtype);
  const Var of_pairs = gather(rows, tape.constant(windows.table_rows));
  const Var of_heads = permute(of_pairs, {1, 0});
  if (!windows.mask.defined()) return reshape(of_heads, {1, heads, T, T});
  const Var mask = cast(tape.constant(windows.mask), dtype);
  const Var both = learned_positions(mask, of_heads);
  return reshape(both, {windows.count, heads, T, T});
}

// Self-attention within each window of each image. `rows` has one segment per window.
Var attend(AttentionBlock& block, Parameter& table, const MapWindows& windows, const Segments& rows, const Var& in,
           const ForwardPass& pass) {
  const auto moved = [&](const Var& x, const RowOrder& order) { return windows.count == 1 ? x : reindex(x, order); };
  const Var qkv = side_by_side(block.qkv, moved(in, windows.order), pass);
  const Var bias = bias_of(table, windows, pass.tape, qkv.dtype());
  const Var y = attention_packed(qkv, bias, block.options(/*causal=*/false, rows, pass), rows);
  return moved(y, windows.order.inverted());
}

}  // namespace

Swin::Swin(const SwinConfig& config, std::optional<std::uint64_t> seed, DType dtype, Device device)
    : ImageFamily(config, {.stem = "patch_embed", .norm = "norm", .head = "head"}, features_of(validated(config)),
                  dtype, device) {
  ConvLayer& patches =
      add_conv("patch_embed.proj", {config.width, kImageChannels, config.patch, config.patch}, /*with_bias=*/true);
  patches.norm = BlockMaker{config_, dtype, device, 0, 0}.normalizer("patch_embed.norm");
  std::int64_t first_layer = 0;
  for (std::int64_t s = 0; s < config.stages(); ++s) {
    add_stage(s, first_layer);
    first_layer += config.depths[std::size_t(s)];
  }
  finish(seed);
}

void Swin::add_stage(std::int64_t number, std::int64_t first_layer) {
  BlockConfig sizes = config_;
  sizes.width = config_.width_of(number), sizes.heads = config_.heads_of(number), sizes.ffn_width <<= number;
  const BlockMaker make{sizes, dtype(), device(), 0, 0};
  const std::int64_t side = config_.side_of(number), window = config_.window_of(number), table = 2 * window - 1;
  const auto windows = [&](std::int64_t shift) {
    return MapWindows(side, window, shift, sizes.heads, dtype(), device());
  };
  Stage& stage = stages_.emplace_back(
      Stage{.layers = {}, .plain = windows(0), .shifted = windows(config_.shift_of(number)), .merging = nullptr});
  const std::string scope = "layers." + std::to_string(number);
  for (std::int64_t i = 0; i < config_.depths[std::size_t(number)]; ++i) {
    const std::string name = scope + ".blocks." + std::to_string(i);
    const BlockMaker layer = make.at_layer(first_layer + i, config_.layers());
    stage.layers.push_back(
        {{{layer, {.scope = name + ".attn", .norm = name + ".norm1"}, config_.qkv_bias},
          {layer, {.prefix = name + ".mlp", .scope = name + ".mlp", .norm = name + ".norm2"}, NormPlace::pre}},
         {name + ".attn.relative_position_bias_table", Tensor::zeros({table * table, sizes.heads}, dtype(), device())},
         i % 2 == 1});
  }
  if (number + 1 == config_.stages()) return;
  const std::string merging = scope + ".downsample";
  stage.merging = std::make_unique<Merging>(Merging{
      merging, make.normalizer(merging + ".norm", 4 * sizes.width),
      LinearLayer(merging + ".reduction", 4 * sizes.width, 2 * sizes.width, dtype(), device(), config_.reduction_bias),
      neighbours(side, device())});
}

void Swin::list(ModelParts& parts) {
  parts.add(stem());
  for (Stage& stage : stages_) {
    for (Layer& layer : stage.layers) {
      parts.add(layer.blocks, layer.table);
      parts.added.push_back(&layer.table);
    }
    if (stage.merging) parts.add(stage.merging->reduction, stage.merging->norm);
  }
  list_head(parts);
}

// Draws linear layers and tables from N(0.02) and sets biases to 0. Draws the patch layer's weight and bias from
// U(in^-1/2), as PyTorch's Conv2d does. microsoft/Swin-Transformer does the same, but truncates the normal at +-2, a
// hundred deviations away.
void Swin::initialize(std::uint64_t seed) {
  const auto normal = [&](Parameter& weight) { fill_normal(weight, 0.02, seed); };
  ConvLayer& patches = stem()[0];
  const double in = double(patches.weight.value.size() / config_.width);
  for (Parameter* p : {&patches.weight, &patches.bias}) fill_uniform(*p, 1 / std::sqrt(in), seed);
  for (Stage& stage : stages_) {
    for (Layer& layer : stage.layers) {
      AttentionBlock& attention = layer.blocks.self_attention;
      FeedForwardBlock& mlp = layer.blocks.feed_forward;
      for (LinearLayer* linear : {&attention.qkv[0], &attention.sublayer.out, &mlp.fc1, &mlp.sublayer.out})
        normal(linear->weight);
      normal(layer.table);
    }
    if (stage.merging) normal(stage.merging->reduction.weight);
  }
  normal(head().weight);
}

Var Swin::features(const Var& pixels, const ForwardPass& pass) {
  const std::int64_t B = pixels.shape()[0];
  const auto rows_of = [&](std::int64_t stage) {
    const std::int64_t side = config_.side_of(stage);
    return segments(B, side * side, pass);
  };
  Segments rows = rows_of(0);
  const auto patches = [&] {
    const Tape::Scope scope(pass.tape, stem_scope());
    const Var W = pass.use(stem()[0].weight);
    const Var b = pass.use(stem()[0].bias);
    return reshape(patch_embedding(pixels, W, b), {rows.rows(), config_.width});
  };
  Var x = stem()[0].norm->apply(patches(), pass.norm(rows));  // [SWIN-1]
  {
    const Tape::Scope scope(pass.tape, stem_scope());
    x = dropout(x, pass.dropout(config_.dropout),
                pass.random(random_stream(stem_scope() + ".dropout"), rows.first_row(), config_.width));
  }
  for (std::int64_t s = 0; s < config_.stages(); ++s) {
    Stage& stage = stages_[std::size_t(s)];
    const Segments of_windows = segments(B * stage.plain.count, stage.plain.tokens, pass);
    for (Layer& layer : stage.layers) {
      const Attend own = [&](AttentionBlock& block, const Var& in) {
        return attend(block, layer.table, layer.shifted ? stage.shifted : stage.plain, of_windows, in, pass);
      };
      x = layer.blocks(std::move(x), rows, own, pass);
    }
    if (!stage.merging) continue;
    Merging& merging = *stage.merging;
    rows = rows_of(s + 1);
    const auto merged = [&] {  // [SWIN-4]
      const Tape::Scope scope(pass.tape, merging.scope);
      return reshape(reindex(x, merging.order), {rows.rows(), 4 * config_.width_of(s)});
    };
    const Var normalized = merging.norm->apply(merged(), pass.norm(rows));
    const Tape::Scope scope(pass.tape, merging.scope);
    x = merging.reduction(normalized, pass);
  }
  return x;
}

std::string Swin::onnx_stem(OnnxGraph& g, const std::string& pixels) const {
  return onnx_patches(g, pixels, config_.image_size, config_.patch);
}

std::unique_ptr<Model> Swin::foldable() {
  const auto has_values = [](Normalizer* n) { return !n->parameters().empty() || !n->state().empty(); };
  if ((config_.qkv_bias && config_.reduction_bias) || std::ranges::none_of(normalizers(), has_values)) return nullptr;
  const Change with_biases = [](ImageModelConfig& changed) {
    auto& config = static_cast<SwinConfig&>(changed);
    config.qkv_bias = config.reduction_bias = true;
  };
  return altered(with_biases, values());
}

}  // namespace foldgrad
