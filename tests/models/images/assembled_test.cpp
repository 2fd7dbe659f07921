// Image classifiers against ones put together from operations, and their dropout.
#include "ops/activation/activation.h"
#include "ops/affine/affine.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/concat/concat.h"
#include "ops/conv2d/conv2d.h"
#include "ops/linear/linear.h"
#include "ops/max_pool2d/max_pool2d.h"
#include "ops/positions/positions.h"
#include "ops/reduce/reduce.h"
#include "ops/reshape/reshape.h"
#include "ops/softmax/softmax.h"
#include "ops/weighted_pool/weighted_pool.h"
#include "tests/models/images/kinds.h"

namespace foldgrad::testing {
namespace {

// Models put together once more from operations alone, in f64.
Var use(const Var& x, const Parameter& p) { return x.tape().constant(p.value); }
Var linear(const Var& x, const LinearLayer& layer) {
  return foldgrad::linear(x, use(x, layer.weight), use(x, layer.bias));
}
// The result of an affine normalizer.
Var mapped(const Var& x, Normalizer& norm) {
  const std::vector<Parameter*> p = norm.parameters();
  return affine(x, use(x, *p[0]), use(x, *p[1]));
}

// [B, side, side, C]
Var assembled_tokens(Vit& model, const Var& image) {
  const ConvLayer& conv = model.stem()[0];
  return conv2d_channels_last(image, use(image, conv.weight), use(image, conv.bias), {.stride = model.config().patch});
}
Var assembled_tokens(Cct& model, Var x) {
  for (ConvLayer& conv : model.stem()) {
    x = conv2d_channels_last(x, use(x, conv.weight), {.padding = 1});
    x = conv.norm ? gelu(mapped(x, *conv.norm)) : relu(x);
    if (!conv.norm) x = max_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1});
    if (conv.norm && &conv != &model.stem()[0]) x = max_pool2d(x);
  }
  return x;
}

// Layers whose attention adds nothing, and whose feed-forward blocks add their last bias alone.
Var assembled_layers(ImageModel& model, Var x, bool norm_on_stream) {
  const Tensor positions = model.positions().value.reshape({x.shape()[1], x.shape()[2]});
  x = learned_positions(x, x.tape().constant(positions));
  for (TransformerLayer& layer : model.layers()) {
    const Sublayer& sublayer = layer.feed_forward.sublayer;
    if (norm_on_stream) x = mapped(x, *sublayer.norm);
    x = add_bias(x, use(x, sublayer.out.bias));
  }
  return mapped(x, *model.norm());
}

Var assembled_pool(ImageModel& model, const Var& x) {
  const std::int64_t B = x.shape()[0], T = x.shape()[1];
  if (model.cls()) return reshape(slice(x, 1, 0, 1), {B, x.shape()[2]});
  if (!model.attention_pool()) return mean_pool(x);
  return weighted_pool(x, softmax(reshape(linear(x, *model.attention_pool()), {B, T})));
}

template <class M>
void expect_assembled_by_hand(const typename M::Config& config, bool norm_on_stream) {
  SCOPED_TRACE(describe(config));
  M model(config, 1, DType::f64);
  randomize(model, 1);
  for (TransformerLayer& layer : model.layers()) {
    layer.self_attention.sublayer.out.weight.value.zero(), layer.self_attention.sublayer.out.bias.value.zero();
    layer.feed_forward.sublayer.out.weight.value.zero();
  }
  const NamedTensors inputs = images_of(config);
  Tape tape(/*recording=*/false);
  Var x = assembled_tokens(model, tape.constant(inputs.at("images")));
  x = reshape(x, {3, x.shape()[1] * x.shape()[2], config.width});
  if (model.cls()) {
    const Var cls = use(x, *model.cls());
    x = concat({concat({cls, cls, cls}, 0), x}, 1);
  }
  ASSERT_EQ(x.shape()[1], config.tokens());
  const Var pooled = assembled_pool(model, assembled_layers(model, x, norm_on_stream));
  EXPECT_TRUE(close(inference_logits(model, inputs, DType::f64), linear(pooled, model.head()).value(), 1e-13));
}

TEST(Vit, VIT_1_VIT_2_CCT_3_AssembledByHand) {
  for (const char* pooling : {"cls", "mean", "sequence"}) {
    VitConfig config = tiny_vit("affine");
    config.pooling = pooling;
    expect_assembled_by_hand<Vit>(config, /*norm_on_stream=*/false);
  }
}

TEST(Cct, CCT_1_CCT_2_CCT_3_AssembledByHand) {
  for (const char* stem : {"cct", "hybrid"})
    for (const char* block : {"pre", "cct"}) {
      CctConfig config = tiny_cct("affine", stem, block);
      config.convs = 2, config.image_size = 8;
      expect_assembled_by_hand<Cct>(config, /*norm_on_stream=*/config.block == "cct");
    }
}

TEST(Vit, BytesAreNormalizedByTheStatisticsOfTheConfiguration) {
  VitConfig config = tiny_vit();
  config.pixels = {{0.5, 0.4, 0.3}, {0.25, 0.2, 0.1}};
  Vit model(config, 1, DType::f64);
  randomize(model, 1);
  const Tensor bytes = Tensor::empty({2, 4, 4, 3}, DType::u8), pixels = Tensor::empty({2, 4, 4, 3}, DType::f64);
  for (std::int64_t i = 0; i < bytes.size(); ++i) {
    const int byte = int(37 * i % 256);
    bytes.data<std::uint8_t>()[i] = std::uint8_t(byte);
    pixels.data<double>()[i] = (byte / 255.0 - config.pixels.mean[i % 3]) / config.pixels.std[i % 3];
  }
  EXPECT_TRUE(close(inference_logits(model, {{"images", bytes}}, DType::f64),
                    inference_logits(model, {{"images", pixels}}, DType::f64), 1e-14));
}

// Weights of zero, so that the stream changes by nothing but ones that are kept, twice as large, or dropped.
TEST(Vit, EveryPlaceOfDropoutHasAMaskOfItsOwn) {
  VitConfig config = tiny_vit("none");
  config.dropout = config.activation_dropout = 0.5;
  config.activation = "sigmoid";  // never 0
  Vit model(config, 1, DType::f64);
  for (Parameter* p : model.parameters()) p->value.zero();
  const auto ones = [](Parameter& p) { p.value.copy_from(Tensor::full(p.value.shape(), 1, DType::f64)); };
  ones(model.positions());
  for (TransformerLayer& layer : model.layers())
    for (Sublayer* s : {&layer.self_attention.sublayer, &layer.feed_forward.sublayer}) ones(s->out.bias);
  Tape tape;
  std::vector<std::vector<double>> results;
  tape.observe([&](const Node& node, const Tensor& y) {
    const std::string op = node.name();
    if (op == "dropout" || op == "bias_activation_dropout" || op == "bias_dropout_residual")
      results.push_back(y.values<double>());
  });
  (void)model.forward(images_of(config, 4),
                      {.tape = tape, .dtype = DType::f64, .training = true, .seed = 1, .step = 1});
  ASSERT_EQ(results.size(), 7u);  // of tokens, and of two layers two sums and an activation each
  constexpr std::size_t kBits = 160;
  std::vector<std::vector<bool>> kept;
  std::vector<double> stream(kBits);
  for (std::size_t k = 0; k < results.size(); ++k) {
    const bool activation = k % 3 == 2;
    kept.emplace_back();
    for (std::size_t i = 0; i < kBits; ++i) kept[k].push_back(results[k][i] != (activation ? 0 : stream[i]));
    if (!activation) stream = results[k];
  }
  // 80 of 160 fair coins agree, with a deviation of 6.3.
  for (std::size_t a = 0; a < kept.size(); ++a)
    for (std::size_t b = a + 1; b < kept.size(); ++b) {
      int equal = 0;
      for (std::size_t i = 0; i < kBits; ++i) equal += kept[a][i] == kept[b][i];
      EXPECT_LE(equal, 120) << a << " and " << b;
    }
}

}  // namespace
}  // namespace foldgrad::testing
