#include "models/vit/vit.h"

#include "engine/check.h"
#include "ops/conv2d/conv2d.h"

namespace foldgrad {

VitConfig::VitConfig() { width = 384, ffn_width = 1536, heads = 6; }

void VitConfig::validate() const {
  TokenModelConfig::validate("vit", kInitializations);
  FOLDGRAD_CHECK(patch >= 1 && image_size % patch == 0, "vit: patch must divide image_size = {}, got {}", image_size,
                 patch);
}

Vit::Vit(const VitConfig& config, std::optional<std::uint64_t> seed, DType dtype, Device device)
    : ImageFamily(config, {.stem = "patch_embed", .norm = config.fc_norm ? "fc_norm" : "norm"},
                  validated(config).tokens(), dtype, device) {
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

std::string Vit::onnx_stem(OnnxGraph& g, const std::string& pixels) const {
  return onnx_patches(g, pixels, config_.image_size, config_.patch);
}

}  // namespace foldgrad
