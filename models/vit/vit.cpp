#include "models/vit/vit.h"

#include "engine/check.h"
#include "engine/graph/onnx_graph.h"
#include "ops/conv2d/conv2d.h"

namespace foldgrad {

VitConfig::VitConfig() { width = 384, ffn_width = 1536, heads = 6; }

void VitConfig::validate() const {
  ImageModelConfig::validate("vit", kInitializations);
  FOLDGRAD_CHECK(patch >= 1 && image_size % patch == 0, "vit: patch must divide image_size = {}, got {}", image_size,
                 patch);
}

Vit::Vit(const VitConfig& config, std::optional<std::uint64_t> seed, DType dtype, Device device)
    : ImageModel(config,
                 {.stem = "patch_embed",
                  .cls = "cls_token",
                  .positions = "pos_embed",
                  .norm = "norm",
                  .attention_pool = "attention_pool",
                  .head = "head"},
                 validated(config).tokens(), dtype, device),
      config_(config) {
  add_conv("patch_embed.proj", {config.width, kImageChannels, config.patch, config.patch}, /*with_bias=*/true);
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const BlockMaker make = BlockMaker{config_, dtype, device, config.layers, 0}.at_layer(i, config.layers);
    const std::string name = "blocks." + std::to_string(i);
    layers().push_back(
        {{make, {.scope = name + ".attn", .norm = name + ".norm1"}, config.qkv_bias},
         {make, {.prefix = name + ".mlp", .scope = name + ".mlp", .norm = name + ".norm2"}, norm_place(config_)}});
  }
  finish(seed);
}

Var Vit::tokens(const Var& pixels, const ForwardPass& pass) {
  const Tape::Scope scope(pass.tape, "patch_embed");
  const Var W = pass.use(stem()[0].weight);
  const Var b = pass.use(stem()[0].bias);
  return patch_embedding(pixels, W, b);
}

// Puts the pixels of a patch into the order of unfold(): channel, row, column.
std::string Vit::onnx_stem(OnnxGraph& g, const std::string& pixels) const {
  const std::int64_t P = config_.patch, n = config_.image_size / P;
  const std::string cut = g.reshape(pixels, {kImageChannels, n, P, n, P});
  return g.reshape(g.transpose(cut, {0, 2, 4, 1, 3, 5}), {n * n, kImageChannels * P * P});
}

std::unique_ptr<Model> Vit::with(const ImageModelConfig& changed, DType dtype, Device device) const {
  VitConfig config = config_;
  static_cast<ImageModelConfig&>(config) = changed;
  return std::make_unique<Vit>(config, std::nullopt, dtype, device);
}

}  // namespace foldgrad
