// The families of image classifiers, and small configurations of them.
#pragma once
#include "models/cct/cct.h"
#include "tests/models/swin/tiny_swin.h"
#include "tests/models/t2t/tiny_t2t.h"

namespace foldgrad::testing {

// Returns a configuration with four tokens. The hybrid stem has two convolutions, with four and eight channels.
inline CctConfig tiny_cct(const std::string& normalizer = "ln", const std::string& stem = "cct",
                          const std::string& block = "pre") {
  CctConfig config;
  config.image_size = 4, config.classes = 5, config.convs = stem == "cct" ? 1 : 2;
  config.width = 8, config.ffn_width = 12, config.heads = 2, config.layers = 2;
  config.attention_dropout = 0;
  config.normalizer = normalizer, config.stem = stem, config.block = block;
  config.normalizer_options = suitable_options(normalizer);
  if (normalizer == "groupnorm") config.normalizer_options = {{"groups", "2"}};
  return config;
}

using ImageFamilies = ::testing::Types<Vit, Cct, T2t, Swin>;

// few() returns a pre-norm and a post-norm ViT, and for CCT the two published stems with their blocks. all() combines
// these with the options that change the places of normalizers or the layers that read them.
template <>
struct Kinds<Vit> {
  static NamedTensors inputs(const VitConfig& config) { return images_of(config); }
  static std::vector<VitConfig> few(const std::string& normalizer) {
    if (normalizer == "deepnorm") return {tiny_vit(normalizer, /*pre_norm=*/false)};
    return {tiny_vit(normalizer), tiny_vit(normalizer, /*pre_norm=*/false)};
  }
  static std::vector<VitConfig> all(const std::string& normalizer) {
    std::vector<VitConfig> kinds;
    for (VitConfig config : few(normalizer))
      for (const char* pooling : {"cls", "mean", "sequence"})
        for (bool qkv_bias : {true, false}) {
          config.pooling = pooling, config.qkv_bias = qkv_bias;
          config.fc_norm = config.pre_norm && qkv_bias && pooling == std::string("mean");
          kinds.push_back(config);
        }
    return kinds;
  }
};

template <>
struct Kinds<Cct> {
  static NamedTensors inputs(const CctConfig& config) { return images_of(config); }
  static std::vector<CctConfig> few(const std::string& normalizer) {
    if (normalizer == "deepnorm") return {};  // requires post-norm
    return {tiny_cct(normalizer, "cct", "cct"), tiny_cct(normalizer, "hybrid")};
  }
  static std::vector<CctConfig> all(const std::string& normalizer) {
    std::vector<CctConfig> kinds;
    for (CctConfig config : few(normalizer))
      for (const char* block : {"pre", "cct"})
        for (const char* pooling : {"sequence", "mean"}) {
          config.block = block, config.pooling = pooling;
          kinds.push_back(config);
        }
    return kinds;
  }
};

inline std::string kind_name(const VitConfig& config) {
  return config.pooling + (config.pre_norm ? ", pre-norm" : ", post-norm");
}
inline std::string kind_name(const CctConfig& config) {
  return config.pooling + ", stem " + config.stem + ", block " + config.block;
}
inline std::string kind_name(const T2tConfig& config) { return config.token_attention + ", " + config.pooling; }
inline std::string kind_name(const SwinConfig& config) { return config.fc_norm ? "fc_norm" : "norm"; }

template <class Config>
std::string describe(const Config& config) {
  return fmt::format("{}, {}, {}{}", config.normalizer, kind_name(config), options_of(config),
                     config.qkv_bias ? ", biases" : "");
}

}  // namespace foldgrad::testing
