#include <cmath>

#include "tests/models/vit/tiny_vit.h"

namespace foldgrad::testing {
namespace {

// Layers that add nothing, and no normalizers: what remains is written out below.
TEST(Vit, VIT_1_VIT_2_CCT_3_WorkedByHand) {
  for (const char* pooling : {"cls", "mean", "sequence"}) {
    VitConfig config = tiny_vit("none");
    config.pooling = pooling;
    Vit model(config, 1, DType::f64);
    randomize(model, 1);
    for (ImageLayer& layer : model.layers())
      for (LinearLayer* out : {&layer.attention.sublayer.out, &layer.feed_forward.sublayer.out})
        out->weight.value.zero(), out->bias.value.zero();
    const NamedTensors inputs = images_of(config), p = model.values();
    const auto at = [](const Tensor& t, std::int64_t i) { return t.data<double>()[i]; };
    const std::int64_t C = config.width;
    const auto token = [&](std::int64_t b, std::int64_t patch, std::int64_t c) {
      double sum = at(p.at("patch_embed.proj.bias"), c);
      for (std::int64_t channel = 0; channel < 3; ++channel)
        for (std::int64_t v = 0; v < 2; ++v)
          for (std::int64_t w = 0; w < 2; ++w) {
            const std::int64_t row = patch / 2 * 2 + v, column = patch % 2 * 2 + w;
            sum += at(p.at("patch_embed.proj.weight"), ((c * 3 + channel) * 2 + v) * 2 + w) *
                   at(inputs.at("images"), ((b * 4 + row) * 4 + column) * 3 + channel);
          }
      return sum + at(p.at("pos_embed"), patch * C + c);
    };
    const auto weights = [&](std::int64_t b) {
      std::vector<double> w(4, 0.25);
      if (config.pooling != "sequence") return w;
      double sum = 0;
      for (std::int64_t patch = 0; patch < 4; ++patch) {
        double score = at(p.at("attention_pool.bias"), 0);
        for (std::int64_t c = 0; c < C; ++c) score += at(p.at("attention_pool.weight"), c) * token(b, patch, c);
        sum += w[std::size_t(patch)] = std::exp(score);
      }
      for (double& one : w) one /= sum;
      return w;
    };
    const Tensor want = Tensor::empty({3, 5}, DType::f64);
    for (std::int64_t b = 0; b < 3; ++b)
      for (std::int64_t k = 0; k < 5; ++k) {
        double& z = want.data<double>()[b * 5 + k] = at(p.at("head.bias"), k);
        for (std::int64_t c = 0; c < C; ++c) {
          double pooled = 0;
          if (config.has_cls())
            pooled = at(p.at("cls_token"), c) + at(p.at("pos_embed"), c);
          else
            for (std::int64_t patch = 0; patch < 4; ++patch)
              pooled += token(b, patch, c) * weights(b)[std::size_t(patch)];
          z += at(p.at("head.weight"), k * C + c) * pooled;
        }
      }
    EXPECT_TRUE(close(inference_logits(model, inputs, DType::f64), want, 1e-13)) << pooling;
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

void check_gradients_of(const VitConfig& config) {
  Vit model(config, 1, DType::f64);
  randomize(model, 10);
  check_gradients(model, images_of(config));
}

TEST(Vit, GradientsWithAClassTokenAndDropout) {
  VitConfig config = tiny_vit("ln");
  config.dropout = config.attention_dropout = config.activation_dropout = 0.2;
  config.qkv_bias = true;
  check_gradients_of(config);
}
TEST(Vit, GradientsWithTheMeanOfTokensAndUnInItsWarmUp) {
  VitConfig config = tiny_vit("un");
  config.pooling = "mean";
  config.normalizer_options = {{"warmup", "100"}};
  check_gradients_of(config);
}
TEST(Vit, GradientsWithPostNorm) { check_gradients_of(tiny_vit("deepnorm", /*pre_norm=*/false)); }

TEST(Vit, EveryDropoutActsInTrainingAloneAndFollowsTheStep) {
  const NamedTensors inputs = images_of(tiny_vit());
  const auto loss = [&](const VitConfig& config, bool training, std::uint32_t step) {
    Vit model(config, 1, DType::f64);
    randomize(model, 1);
    return loss_of(model, inputs, training, step);
  };
  const double without = loss(tiny_vit(), true, 1);
  for (double VitConfig::*key : {&VitConfig::dropout, &VitConfig::attention_dropout, &VitConfig::activation_dropout}) {
    VitConfig config = tiny_vit();
    config.*key = 0.3;
    const double with = loss(config, true, 1);
    EXPECT_GT(std::abs(with - without), 1e-4);
    EXPECT_EQ(with, loss(config, true, 1));
    EXPECT_GT(std::abs(with - loss(config, true, 2)), 1e-4);
    EXPECT_EQ(loss(config, false, 1), without);  // ln does the same in training and inference
  }
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
  for (ImageLayer& layer : model.layers())
    for (Sublayer* s : {&layer.attention.sublayer, &layer.feed_forward.sublayer}) ones(s->out.bias);
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
  // Of fair coins 80 of 160 agree, with a deviation of 6.3.
  for (std::size_t a = 0; a < kept.size(); ++a)
    for (std::size_t b = a + 1; b < kept.size(); ++b) {
      int equal = 0;
      for (std::size_t i = 0; i < kBits; ++i) equal += kept[a][i] == kept[b][i];
      EXPECT_LE(equal, 120) << a << " and " << b;
    }
}

TEST(Vit, CudaIsTheCpu) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  for (const char* pooling : {"cls", "mean"}) {
    VitConfig config = tiny_vit("un");
    config.pooling = pooling, config.dropout = config.attention_dropout = 0.2;
    Vit cpu(config, 1, DType::f64), cuda(config, 1, DType::f64, Device::cuda);
    const NamedTensors images = images_of(config);
    const double want = backward(cpu, images, DType::f64), got = backward(cuda, to(images, Device::cuda), DType::f64);
    EXPECT_NEAR(got, want, 1e-11 * want);
    const auto a = cpu.parameters(), b = cuda.parameters();
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(close(b[i]->grad, a[i]->grad, 1e-10)) << a[i]->name;
  }
}

class EveryNormalizerOfAVit : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryNormalizerOfAVit, Trains) {
  for (bool pre_norm : {true, false}) {
    if (pre_norm && GetParam() == "deepnorm") continue;
    SCOPED_TRACE(pre_norm ? "pre-norm" : "post-norm");
    VitConfig config = tiny_vit(GetParam(), pre_norm);
    config.initialization = "pytorch";
    check_one_step([&](DType dtype) { return std::make_unique<Vit>(config, 1, dtype); }, images_of(config));
  }
}
INSTANTIATE_TEST_SUITE_P(All, EveryNormalizerOfAVit, ::testing::ValuesIn(normalizer_names()),
                         [](const auto& i) { return i.param; });

}  // namespace
}  // namespace foldgrad::testing
