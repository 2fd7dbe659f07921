// Where the normalizer of a sublayer stands. Whole models are in tests/models/transformer, vit and cct.
#include "models/blocks/layers.h"

#include "tests/harness/compare.h"

namespace foldgrad::testing {
namespace {

// Both the branch and the sum read the normalizer's result.
TEST(FeedForwardBlock, CCT_2_OnTheStreamItIsPreNormOfANormalizedStream) {
  BlockConfig config;
  config.width = 8, config.ffn_width = 12, config.heads = 2;
  config.normalizer = "affine";
  const BlockMaker make{config, DType::f64, Device::cpu, 1, 0};
  const FeedForwardNames names{.prefix = "layer", .scope = "layer.ffn", .norm = "layer.norm"};
  FeedForwardBlock stream(make, names, NormPlace::stream), pre(make, names);
  unsigned seed = 1;
  for (Parameter* p : stream.parameters()) p->value.copy_from(randn(p->value.shape(), ++seed));
  const auto from = stream.parameters(), to = pre.parameters();
  ASSERT_EQ(from.size(), 6u);
  for (std::size_t i = 0; i < 4; ++i) to[i]->value.copy_from(from[i]->value);  // the affine of `pre` does nothing
  Tape tape;
  const ForwardPass pass{.tape = tape, .dtype = DType::f64};
  const Segments rows({5, 3});
  const Var x = tape.constant(randn({8, 8}, 3));
  const Var normalized = stream.sublayer.norm->apply(x, {});
  EXPECT_TRUE(close(stream(x, rows, pass).value(), pre(normalized, rows, pass).value(), 1e-14));
  EXPECT_FALSE(close(stream(x, rows, pass).value(), pre(x, rows, pass).value(), 1e-3));
}

}  // namespace
}  // namespace foldgrad::testing
