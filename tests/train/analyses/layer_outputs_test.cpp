#include "train/analyses/layer_outputs.h"

#include "tests/models/vit/tiny_vit.h"

namespace foldgrad::testing {
namespace {

TEST(LayerOutputs, OfEveryNormalizerAndSublayer) {
  Vit vit(tiny_vit("un"), 3);
  randomize(vit, 5);
  const std::vector<LayerOutput> outputs = layer_outputs(vit, vit.random_inputs(1), DType::f32);
  std::vector<std::string> names;
  for (const LayerOutput& o : outputs) {
    names.push_back(o.layer);
    EXPECT_EQ(o.values.shape(), (Shape{8 * 5, 8})) << o.layer;
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"blocks.0.norm1", "blocks.0.attn", "blocks.0.norm2", "blocks.0.mlp",
                                      "blocks.1.norm1", "blocks.1.attn", "blocks.1.norm2", "blocks.1.mlp", "norm"}));
}

}  // namespace
}  // namespace foldgrad::testing
