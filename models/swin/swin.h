// The Swin Transformer of config.h, which classifies images.
//
//   [SWIN-1]  features: x = drop(norm(patches W^T + b)); then stage by stage its layers, and [SWIN-4] between stages.
//             The layers are pre-norm (models/blocks/layers.h), and attend within windows
//   [SWIN-2]  windows of M x M tokens, M = window_of(stage): an odd layer rolls the map of S x S tokens by (-s, -s)
//             first, s = shift_of(stage), so that window (i, j) has the rows (i M + s ... i M + M - 1 + s) mod S, and
//             columns likewise. A map of at most `window` tokens on a side is one window
//   [SWIN-3]  the bias of scores of tokens a, b of window g: table_(M'(r_a - r_b + M - 1) + c_a - c_b + M - 1) + mask,
//             M' = 2 M - 1, r and c the row and column in the window. mask: -100 if s > 0 and a and b are in different
//             bands, otherwise 0. The bands of the rolled map's rows, and of its columns, are [0, S - M), [S - M, S -
//             s) and [S - s, S)
//   [SWIN-4]  merging: the four neighbours of each square next to each other, at (row, column) (0, 0), (1, 0), (0, 1),
//             (1, 1); x = W norm(x), norm over four times the channels. The new map has half as many rows and columns
//
//   models/images/model.h defines the pool, the head and the inputs.
//
//   Parameters have the authors' names and shapes (microsoft/Swin-Transformer, models/swin_transformer.py):
//   patch_embed.proj and .norm, layers.S.blocks.B.norm1, .attn.qkv, .attn.proj, .attn.relative_position_bias_table
//   [(2 M - 1)^2, heads], .norm2, .mlp.fc1, .mlp.fc2, layers.S.downsample.norm and .reduction, norm, head.
#pragma once
#include "models/images/model.h"
#include "models/swin/config.h"
#include "models/swin/windows.h"

namespace foldgrad {

class Swin final : public ImageFamily<Swin, SwinConfig> {
 public:
  Swin(const SwinConfig& config, std::optional<std::uint64_t> seed, DType dtype = DType::f32,
       Device device = Device::cpu);
  const char* family() const override { return "swin"; }
  std::string onnx_stem(OnnxGraph& g, const std::string& pixels) const override;
  // Returns a model with biases for normalizers to fold into.
  std::unique_ptr<Model> foldable() override;

 private:
  struct Layer {
    TransformerLayer blocks;
    Parameter table;  // bias table [SWIN-3]
    bool shifted;
  };
  struct Merging {
    std::string scope;
    std::unique_ptr<Normalizer> norm;
    LinearLayer reduction;
    RowOrder order;
  };
  struct Stage {
    std::deque<Layer> layers;
    MapWindows plain, shifted;
    std::unique_ptr<Merging> merging;  // null in the last stage
  };

  void add_stage(std::int64_t number, std::int64_t first_layer);
  void list(ModelParts& parts) override;
  void initialize(std::uint64_t seed) override;
  Var features(const Var& pixels, const ForwardPass& pass) override;

  std::deque<Stage> stages_;
};

}  // namespace foldgrad
