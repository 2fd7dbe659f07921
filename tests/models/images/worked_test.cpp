// Compares the logits of image classifiers with logits that plain code computes from the same weights. Also tests the
// normalization of pixels, and dropout.
#include "ops/activation/activation.h"
#include "ops/affine/affine.h"
#include "ops/conv2d/conv2d.h"
#include "ops/max_pool2d/max_pool2d.h"
#include "tests/models/images/kinds.h"

namespace foldgrad::testing {
namespace {

double at(const Tensor& t, std::int64_t i) { return t.data<double>()[i]; }

// Applies an affine normalizer to the number u of channel c.
double mapped(Normalizer& norm, double u, std::int64_t c) {
  const std::vector<Parameter*> p = norm.parameters();
  return at(p[0]->value, c) * u + at(p[1]->value, c);
}

// Compute the tokens, [B, H, W, C], with plain operations.
Var tokens_by_hand(Vit& model, const Var& images) {
  const ConvLayer& conv = model.stem()[0];
  const Var W = images.tape().constant(conv.weight.value), b = images.tape().constant(conv.bias.value);
  return conv2d_channels_last(images, W, b, {.stride = model.config().patch});
}
Var tokens_by_hand(Cct& model, Var x) {
  const auto constant = [&](const Parameter& p) { return x.tape().constant(p.value); };
  for (ConvLayer& conv : model.stem()) {
    x = conv2d_channels_last(x, constant(conv.weight), {.padding = 1});
    if (!conv.norm) {
      x = max_pool2d(relu(x), {.kernel = 3, .stride = 2, .padding = 1});
      continue;
    }
    const std::vector<Parameter*> p = conv.norm->parameters();
    x = gelu(affine(x, constant(*p[0]), constant(*p[1])));
    if (&conv != &model.stem()[0]) x = max_pool2d(x, {.kernel = 2, .stride = 2});
  }
  return x;
}

using Tokens = std::vector<std::vector<double>>;  // the tokens of one image

// Adds the positions, then runs the layers and, without fc_norm, the last normalizer. Attention adds nothing, and each
// feed-forward block adds only its last bias, since expect_worked_by_hand() zeroes the last weights of both.
Tokens layers_by_hand(TokenModel& model, Tokens x, bool norm_on_stream) {
  for (std::size_t t = 0; t < x.size(); ++t)
    for (std::size_t c = 0; c < x[t].size(); ++c) {
      const auto channel = std::int64_t(c);
      double& u = x[t][c];
      u += at(model.positions().value, std::int64_t(t * x[t].size() + c));
      for (TransformerLayer& layer : model.layers()) {
        const Sublayer& sublayer = layer.feed_forward.sublayer;
        if (norm_on_stream) u = mapped(*sublayer.norm, u, channel);
        u += at(sublayer.out.bias.value, channel);
      }
      if (!model.config().fc_norm) u = mapped(*model.norm(), u, channel);
    }
  return x;
}

double score(const LinearLayer& layer, std::int64_t row, const std::vector<double>& x) {
  double sum = at(layer.bias.value, row);
  for (std::size_t c = 0; c < x.size(); ++c) sum += at(layer.weight.value, row * std::int64_t(x.size()) + c) * x[c];
  return sum;
}

std::vector<double> pooled(TokenModel& model, const Tokens& x) {
  if (model.cls()) return x[0];
  std::vector<double> weights, sum(x[0].size());
  double total = 0;
  for (const auto& token : x) {
    weights.push_back(model.attention_pool() ? std::exp(score(*model.attention_pool(), 0, token)) : 1);
    total += weights.back();
  }
  for (std::size_t t = 0; t < x.size(); ++t)
    for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += weights[t] / total * x[t][c];
  return sum;
}

template <class M>
void expect_worked_by_hand(const typename M::Config& config, bool norm_on_stream) {
  SCOPED_TRACE(describe(config));
  M model(config, 1, DType::f64);
  randomize(model, 1);
  for (TransformerLayer& layer : model.layers()) {
    layer.self_attention.sublayer.out.weight.value.zero(), layer.self_attention.sublayer.out.bias.value.zero();
    layer.feed_forward.sublayer.out.weight.value.zero();
  }
  const NamedTensors inputs = images_of(config);
  Tape tape(/*recording=*/false);
  const Tensor tokens = tokens_by_hand(model, tape.constant(inputs.at("images"))).value();
  const std::int64_t T = tokens.shape()[1] * tokens.shape()[2], C = tokens.shape()[3];
  ASSERT_EQ(T + config.has_cls(), config.tokens());
  const Tensor want = Tensor::empty({3, config.classes}, DType::f64);
  for (std::int64_t b = 0; b < 3; ++b) {
    Tokens x;
    if (model.cls()) x.push_back(model.cls()->value.template values<double>());
    for (std::int64_t t = 0; t < T; ++t) {
      const double* first = tokens.data<double>() + (b * T + t) * C;
      x.emplace_back(first, first + C);
    }
    std::vector<double> one = pooled(model, layers_by_hand(model, std::move(x), norm_on_stream));
    for (std::size_t c = 0; config.fc_norm && c < one.size(); ++c)
      one[c] = mapped(*model.norm(), one[c], std::int64_t(c));
    for (std::int64_t k = 0; k < config.classes; ++k)
      want.data<double>()[b * config.classes + k] = score(model.head(), k, one);
  }
  EXPECT_TRUE(close(inference_logits(model, inputs, DType::f64), want, 1e-13));
}

TEST(Vit, VIT_1_VIT_2_CCT_3_WorkedByHand) {
  for (const char* pooling : {"cls", "mean", "sequence"})
    for (bool fc_norm : {false, true}) {
      VitConfig config = tiny_vit("affine");
      config.pooling = pooling, config.fc_norm = fc_norm;
      expect_worked_by_hand<Vit>(config, /*norm_on_stream=*/false);
    }
}

TEST(Cct, CCT_1_CCT_2_CCT_3_WorkedByHand) {
  for (const char* stem : {"cct", "hybrid"})
    for (const char* block : {"pre", "cct"}) {
      CctConfig config = tiny_cct("affine", stem, block);
      config.convs = 2, config.image_size = 8;
      expect_worked_by_hand<Cct>(config, /*norm_on_stream=*/config.block == "cct");
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

// All weights are 0, and the positions and the last biases of all sublayers are 1. So only ones are added, and dropout
// turns each into 0 or 2.
TEST(Vit, EveryPlaceOfDropoutHasAMaskOfItsOwn) {
  VitConfig config = tiny_vit("none");
  config.dropout = config.activation_dropout = 0.5;
  config.activation = "sigmoid";  // its results are never 0
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
  ASSERT_EQ(results.size(), 7u);  // one for the tokens; in each of two layers, two sums and an activation
  constexpr std::size_t kBits = 160;
  std::vector<std::vector<bool>> kept;
  std::vector<double> stream(kBits);
  for (std::size_t k = 0; k < results.size(); ++k) {
    const bool activation = k % 3 == 2;
    kept.emplace_back();
    for (std::size_t i = 0; i < kBits; ++i) kept[k].push_back(results[k][i] != (activation ? 0 : stream[i]));
    if (!activation) stream = results[k];
  }
  // Two independent masks agree in 80 of 160 elements on average, with a standard deviation of 6.3.
  for (std::size_t a = 0; a < kept.size(); ++a)
    for (std::size_t b = a + 1; b < kept.size(); ++b) {
      int equal = 0;
      for (std::size_t i = 0; i < kBits; ++i) equal += kept[a][i] == kept[b][i];
      EXPECT_LE(equal, 120) << "masks " << a << " and " << b;
    }
}

}  // namespace
}  // namespace foldgrad::testing
