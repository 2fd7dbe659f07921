// Tests layers and blocks that families share: initial values, placement of normalizers, stochastic depth, weight
// standardization, and the loss of mixed images.
#include <set>
#include <stdexcept>

#include "models/blocks/layers.h"
#include "models/blocks/random_fill.h"
#include "ops/weight_standardize/weight_standardize.h"
#include "tests/harness/op_spec.h"
#include "tests/models/spread.h"
#include "tests/models/vit/tiny_vit.h"

namespace foldgrad::testing {
namespace {

TEST(RandomFill, NewParametersHaveTheDistribution) {
  expect_uniform(uniform_parameter("u", {64, 64}, 0.5, 1, DType::f64).value, 0.5);
  expect_normal(normal_parameter("n", {64, 64}, 0.1, 1, DType::f64).value, 0.1);
}

TEST(RandomFill, SeedAndNameDecide) {
  const auto values = [](const char* name, std::uint64_t seed) {
    return uniform_parameter(name, {8}, 1, seed).value.values<float>();
  };
  EXPECT_EQ(values("a", 1), values("a", 1));
  EXPECT_NE(values("a", 1), values("b", 1));
  EXPECT_NE(values("a", 1), values("a", 2));
}

// With NormPlace::stream, both the branch and the residual sum read the normalizer's result.
TEST(FeedForwardBlock, CCT_2_OnTheStreamItIsPreNormOfANormalizedStream) {
  BlockConfig config;
  config.width = 8, config.ffn_width = 12, config.heads = 2;
  config.normalizer = "affine";
  const BlockMaker make{config, DType::f64, Device::cpu, 1, 0};
  const FeedForwardNames names{.prefix = "layer", .scope = "layer.ffn", .norm = "layer.norm"};
  FeedForwardBlock stream(make, names, NormPlace::stream), pre(make, names, NormPlace::pre);
  unsigned seed = 1;
  ModelParts of_stream, of_pre;
  stream.list(of_stream), pre.list(of_pre);
  const auto &from = of_stream.parameters, &to = of_pre.parameters;
  for (Parameter* p : from) p->value.copy_from(randn(p->value.shape(), ++seed));
  ASSERT_EQ(from.size(), 6u);
  for (std::size_t i = 0; i < 4; ++i) to[i]->value.copy_from(from[i]->value);  // the map of `pre` remains the identity
  Tape tape;
  const ForwardPass pass{.tape = tape, .dtype = DType::f64};
  const Segments rows({5, 3});
  const Var x = tape.constant(randn({8, 8}, 3));
  const Var normalized = stream.sublayer.norm->apply(x, {});
  EXPECT_TRUE(close(stream(x, rows, pass).value(), pre(normalized, rows, pass).value(), 1e-14));
  EXPECT_FALSE(close(stream(x, rows, pass).value(), pre(x, rows, pass).value(), 1e-3));
}

TEST(AttentionBlock, CrossAttentionNeedsThreeLayers) {
  BlockConfig config;
  config.width = 8, config.heads = 2;
  AttentionBlock block({config, DType::f64, Device::cpu, 1, 0}, {.scope = "layer.attn", .norm = "layer.norm"},
                       /*qkv_bias=*/true);
  Tape tape;
  const Var x = tape.constant(randn({4, 8}, 1));
  const Segments rows({4});
  EXPECT_EQ(
      message<std::invalid_argument>([&] { block.attend(x, rows, x, rows, {.tape = tape, .dtype = DType::f64}); }),
      "attention: cross-attention must have q, k and v as three separate layers, got 1");
}

Tensor training_logits(Vit& model, const NamedTensors& inputs) {
  Tape tape(/*recording=*/false);
  return model.forward(inputs, {.tape = tape, .dtype = DType::f64, .training = true, .seed = 3}).value();
}

// Sublayers that are skipped for every image add nothing, as if their last linear layers were 0. The rate grows with
// the layer: it is 0 in the first of two layers and almost 1 in the second.
TEST(VitDropPath, DO_6_GrowsFromNothingInTheFirstLayerToItsRateInTheLast) {
  VitConfig config = tiny_vit("ln");
  config.drop_path = 0.99999;
  Vit model(config, 1, DType::f64), cut(config, 1, DType::f64);
  randomize(model, 2);
  cut.copy_from(model);
  FeedForwardBlock& last = cut.layers()[1].feed_forward;
  for (LinearLayer* layer : {&cut.layers()[1].self_attention.sublayer.out, &last.sublayer.out})
    for (Parameter* p : {&layer->weight, &layer->bias}) p->value.zero();
  const NamedTensors inputs = images_of(config, 8);
  const Tensor left_out = training_logits(model, inputs), want = inference_logits(cut, inputs, DType::f64);
  EXPECT_TRUE(close(left_out, want, 1e-12));
  // Inference skips nothing.
  config.drop_path = 0;
  Vit plain(config, 1, DType::f64);
  plain.copy_from(model);
  EXPECT_TRUE(identical(inference_logits(model, inputs, DType::f64), inference_logits(plain, inputs, DType::f64)));
  EXPECT_FALSE(close(inference_logits(plain, inputs, DType::f64), want, 1e-3));
}

// About half of 64 copies of an image lose the attention of the second layer, and about half lose its feed-forward
// block. The remaining branches are divided by 1/2.
TEST(VitDropPath, ChoosesForEachImageAndSublayer) {
  VitConfig config = tiny_vit("none");
  config.drop_path = 0.5;
  Vit model(config, 1, DType::f64);
  randomize(model, 2);
  const NamedTensors one = images_of(config, 1);
  const Tensor& image = one.at("images");
  const Tensor same = Tensor::empty({64, config.image_size, config.image_size, 3}, DType::f64);
  for (std::int64_t i = 0; i < 64; ++i) same.slice(i, i + 1).copy_from(image);
  const Tensor logits = training_logits(model, {{"images", same}});
  std::set<double> kinds;
  for (std::int64_t i = 0; i < 64; ++i) kinds.insert(logits.data<double>()[i * config.classes]);
  EXPECT_EQ(kinds.size(), 4u);  // with or without each of the two branches
}

TEST(BlockMaker, RatesOfDropPathAreEvenlySpaced) {
  BlockConfig config;
  config.drop_path = 0.3;
  const BlockMaker make{config, DType::f32, Device::cpu, 4, 0};
  for (std::int64_t layer = 0; layer < 4; ++layer)
    EXPECT_DOUBLE_EQ(make.at_layer(layer, 4).drop_path, 0.1 * double(layer));
  EXPECT_EQ(make.at_layer(0, 1).drop_path, 0);
}

VitConfig standardized(const std::string& normalizer = "ln") {
  VitConfig config = tiny_vit(normalizer);
  config.weight_standardization = true;
  return config;
}

// Shifts each row of N weights to mean 0, divides the row by sqrt(N var), where var is its unbiased variance, and
// multiplies it by its gain.
Tensor standardized_rows(const Tensor& weight, const Tensor& gain) {
  Tape tape(/*recording=*/false);
  return weight_standardize(tape.constant(weight), tape.constant(gain), {.unbiased = true}).value();
}

void expect_standardized(const std::string& scope, std::int64_t rows_of_a_block) {
  VitConfig config = standardized();
  config.standardization_scope = scope;
  Vit model(config, 1, DType::f64);
  EXPECT_EQ(model.values().at("blocks.1.mlp.fc1.gain").values<double>(), std::vector<double>(12, 1));
  randomize(model, 2);
  VitConfig plain_config = config;
  plain_config.weight_standardization = false;
  Vit plain(plain_config, 1, DType::f64);
  const NamedTensors values = model.values();
  std::int64_t rows = 0;
  for (auto&& [name, to] : plain.values()) {
    const auto gain = values.find(name.substr(0, name.rfind('.')) + ".gain");
    const bool is_matrix = gain != values.end() && name.ends_with(".weight");
    to.copy_from(is_matrix ? standardized_rows(values.at(name), gain->second) : values.at(name));
    if (is_matrix) rows += gain->second.size();
  }
  EXPECT_EQ(rows, 2 * rows_of_a_block);
  EXPECT_EQ(model.parameter_count() - plain.parameter_count(), rows);
  const NamedTensors inputs = images_of(config);
  EXPECT_TRUE(close(inference_logits(model, inputs, DType::f64), inference_logits(plain, inputs, DType::f64), 1e-12));
}

TEST(VitWeightStandardization, WS_3_IsOfTheMatricesOfABlockThatItsScopeNames) {
  expect_standardized("all", 3 * 8 + 8 + 12 + 8);
  expect_standardized("qkv_fc1", 3 * 8 + 12);
  expect_standardized("out_ffn", 8 + 12 + 8);
  expect_standardized("ffn", 12 + 8);
}

// A row of one weight has no unbiased variance.
TEST(VitWeightStandardization, NeedsRowsOfTwo) {
  VitConfig config = standardized();
  config.ffn_width = 1;
  EXPECT_EQ(message_of([&] { config.validate(); }),
            "vit: ffn_width must be at least 2 with weight_standardization, got 1");
  config.ffn_width = 12, config.standardization_scope = "qkv";
  EXPECT_EQ(message_of([&] { config.validate(); }),
            "vit: standardization_scope must be one of all, qkv_fc1, out_ffn, ffn, got \"qkv\"");
  config.standardization_scope = "all";
  config.weight_standardization = false, config.drop_path = 1;
  EXPECT_EQ(message_of([&] { config.validate(); }), "vit: drop_path must be in [0, 1), got 1");
}

TEST(VitWeightStandardization, IsStoredWhenFolded) {
  for (const char* normalizer : {"un", "ln", "none", "dyt"}) {
    SCOPED_TRACE(normalizer);
    const VitConfig config = standardized(normalizer);
    Vit model(config, 1, DType::f64);
    randomize(model, 2);
    const NamedTensors inputs = images_of(config);
    const FoldedModel folded = fold(model);
    EXPECT_FALSE(vit_of(folded).config().weight_standardization);
    EXPECT_FALSE(vit_of(folded).values().count("blocks.0.attn.qkv.gain"));
    EXPECT_TRUE(
        close(inference_logits(*folded.model, inputs, DType::f64), inference_logits(model, inputs, DType::f64), 1e-12));
  }
}

// Like a mixed image, each image has two classes, with shares of 0.25 and 0.75.
TEST(VitLoss, CE_5_IsThatOfBothClassesByTheirShare) {
  const VitConfig config = tiny_vit();
  Vit model(config, 1, DType::f64);
  randomize(model, 2);
  NamedTensors inputs = images_of(config), second = inputs;
  second.at("target") = random_ids({3}, config.classes, 9);
  const auto loss = [&](const NamedTensors& in) {
    Tape tape(/*recording=*/false);
    return model.loss(in, {.tape = tape, .dtype = DType::f64}, 0.1).value().item();
  };
  const double first_alone = loss(inputs), second_alone = loss(second);
  inputs["second_target"] = second.at("target");
  inputs["share"] = Tensor::full({3}, 0.25, DType::f32);
  EXPECT_NEAR(loss(inputs), 0.25 * first_alone + 0.75 * second_alone, 1e-12);
}

}  // namespace
}  // namespace foldgrad::testing
