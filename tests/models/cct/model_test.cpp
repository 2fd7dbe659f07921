#include <algorithm>
#include <cmath>

#include "tests/models/cct/tiny_cct.h"

namespace foldgrad::testing {
namespace {

double at(const Tensor& t, std::int64_t i) { return t.data<double>()[i]; }

// [B, H, W, C], by loops.
struct Maps {
  std::int64_t batch, side, channels;
  std::vector<double> values;

  double& operator()(std::int64_t b, std::int64_t i, std::int64_t j, std::int64_t c) {
    return values[std::size_t(((b * side + i) * side + j) * channels + c)];
  }
  bool has(std::int64_t i, std::int64_t j) const { return i >= 0 && i < side && j >= 0 && j < side; }
};
Maps maps(std::int64_t batch, std::int64_t side, std::int64_t channels) {
  return {batch, side, channels, std::vector<double>(std::size_t(batch * side * side * channels))};
}

// With kernels of 3 x 3, padding 1 and stride 1.
Maps convolved(Maps x, const Tensor& W) {
  Maps y = maps(x.batch, x.side, W.shape()[0]);
  for (std::int64_t b = 0; b < y.batch; ++b)
    for (std::int64_t i = 0; i < y.side; ++i)
      for (std::int64_t j = 0; j < y.side; ++j)
        for (std::int64_t o = 0; o < y.channels; ++o)
          for (std::int64_t c = 0; c < x.channels; ++c)
            for (std::int64_t v = 0; v < 3; ++v)
              for (std::int64_t w = 0; w < 3; ++w)
                if (x.has(i + v - 1, j + w - 1))
                  y(b, i, j, o) += at(W, ((o * x.channels + c) * 3 + v) * 3 + w) * x(b, i + v - 1, j + w - 1, c);
  return y;
}
Maps pooled(Maps x, std::int64_t kernel, std::int64_t padding) {
  Maps y = maps(x.batch, (x.side + 2 * padding - kernel) / 2 + 1, x.channels);
  for (std::int64_t b = 0; b < y.batch; ++b)
    for (std::int64_t i = 0; i < y.side; ++i)
      for (std::int64_t j = 0; j < y.side; ++j)
        for (std::int64_t c = 0; c < y.channels; ++c) {
          double& most = y(b, i, j, c) = -INFINITY;
          for (std::int64_t v = 0; v < kernel; ++v)
            for (std::int64_t w = 0; w < kernel; ++w)
              if (x.has(2 * i + v - padding, 2 * j + w - padding))
                most = std::max(most, x(b, 2 * i + v - padding, 2 * j + w - padding, c));
        }
  return y;
}

Maps tokens_by_hand(const CctConfig& config, const NamedTensors& p, const Tensor& images) {
  Maps x{images.shape()[0], config.image_size, 3, images.values<double>()};
  for (std::int64_t conv = 0; conv < config.convs; ++conv) {
    const std::string name = "tokenizer.conv_layers." + std::to_string(conv);
    x = convolved(x, p.at(name + ".0.weight"));
    for (std::size_t i = 0; i < x.values.size(); ++i) {
      double& u = x.values[i];
      const std::int64_t c = std::int64_t(i) % x.channels;
      if (config.stem == "cct") {
        u = std::max(u, 0.0);
      } else {
        u = at(p.at(name + ".norm.weight"), c) * u + at(p.at(name + ".norm.bias"), c);
        u *= 0.5 * std::erfc(-u / std::sqrt(2.0));
      }
    }
    if (config.stem == "cct") x = pooled(x, 3, 1);
    if (config.stem == "hybrid" && conv > 0) x = pooled(x, 2, 0);
  }
  for (std::size_t i = 0; i < x.values.size(); ++i)
    x.values[i] += at(p.at("classifier.positional_emb"), std::int64_t(i) % (x.side * x.side * x.channels));
  return x;
}

// A layer whose attention adds nothing, and whose feed-forward block its last bias alone.
void layer_by_hand(const CctConfig& config, const NamedTensors& p, const std::string& name, Maps& x) {
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    const std::int64_t c = std::int64_t(i) % x.channels;
    if (config.block == "cct")
      x.values[i] = at(p.at(name + ".norm1.weight"), c) * x.values[i] + at(p.at(name + ".norm1.bias"), c);
    x.values[i] += at(p.at(name + ".linear2.bias"), c);
  }
}

Tensor logits_by_hand(const NamedTensors& p, Maps x) {
  const std::int64_t T = x.side * x.side, C = x.channels, K = p.at("classifier.fc.bias").size();
  const Tensor logits = Tensor::empty({x.batch, K}, DType::f64);
  for (std::int64_t b = 0; b < x.batch; ++b) {
    double* y = &x.values[std::size_t(b * T * C)];
    std::vector<double> weights;
    double sum = 0;
    for (std::int64_t t = 0; t < T; ++t) {
      double score = at(p.at("classifier.attention_pool.bias"), 0);
      for (std::int64_t c = 0; c < C; ++c) {
        y[t * C + c] = at(p.at("classifier.norm.weight"), c) * y[t * C + c] + at(p.at("classifier.norm.bias"), c);
        score += at(p.at("classifier.attention_pool.weight"), c) * y[t * C + c];
      }
      weights.push_back(std::exp(score));
      sum += weights.back();
    }
    for (std::int64_t k = 0; k < K; ++k) {
      double& z = logits.data<double>()[b * K + k] = at(p.at("classifier.fc.bias"), k);
      for (std::int64_t t = 0; t < T; ++t)
        for (std::int64_t c = 0; c < C; ++c)
          z += weights[std::size_t(t)] / sum * at(p.at("classifier.fc.weight"), k * C + c) * y[t * C + c];
    }
  }
  return logits;
}

TEST(Cct, CCT_1_CCT_2_CCT_3_WorkedByHand) {
  for (const char* stem : {"cct", "hybrid"})
    for (const char* block : {"pre", "cct"}) {
      CctConfig config = tiny_cct("affine", stem, block);
      config.convs = 2, config.image_size = 8;
      Cct model(config, 1, DType::f64);
      randomize(model, 1);
      for (ImageLayer& layer : model.layers()) {
        layer.attention.sublayer.out.weight.value.zero(), layer.attention.sublayer.out.bias.value.zero();
        layer.feed_forward.sublayer.out.weight.value.zero();
      }
      const NamedTensors inputs = images_of(config), p = model.values();
      Maps x = tokens_by_hand(config, p, inputs.at("images"));
      ASSERT_EQ(x.side * x.side, config.tokens());
      for (const char* name : {"classifier.blocks.0", "classifier.blocks.1"}) layer_by_hand(config, p, name, x);
      EXPECT_TRUE(close(inference_logits(model, inputs, DType::f64), logits_by_hand(p, x), 1e-13))
          << stem << ", " << block;
    }
}

void check_gradients_of(const CctConfig& config) {
  Cct model(config, 1, DType::f64);
  randomize(model, 10);
  check_gradients(model, images_of(config));
}

// No value of a ReLU is so near to 0, and no two of a maximum so near to each other, that a difference crosses it.
TEST(Cct, GradientsAsPublished) {
  CctConfig config = tiny_cct("ln", "cct", "cct");
  config.dropout = config.attention_dropout = config.activation_dropout = 0.2;
  check_gradients_of(config);
}
TEST(Cct, GradientsWithAHybridStemAndUnInItsWarmUp) {
  CctConfig config = tiny_cct("un", "hybrid");
  config.normalizer_options = {{"warmup", "100"}};
  check_gradients_of(config);
}

TEST(Cct, CudaIsTheCpu) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  for (const char* stem : {"cct", "hybrid"}) {
    CctConfig config = tiny_cct("un", stem);
    config.attention_dropout = 0.2;
    Cct cpu(config, 1, DType::f64), cuda(config, 1, DType::f64, Device::cuda);
    const NamedTensors images = images_of(config);
    const double want = backward(cpu, images, DType::f64), got = backward(cuda, to(images, Device::cuda), DType::f64);
    EXPECT_NEAR(got, want, 1e-11 * want);
    const auto a = cpu.parameters(), b = cuda.parameters();
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(close(b[i]->grad, a[i]->grad, 1e-10)) << a[i]->name;
  }
}

class EveryNormalizerOfACct : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryNormalizerOfACct, Trains) {
  if (GetParam() == "deepnorm") GTEST_SKIP() << "deepnorm is for post-norm";
  for (const char* stem : {"cct", "hybrid"}) {
    SCOPED_TRACE(stem);
    CctConfig config = tiny_cct(GetParam(), stem, std::string(stem) == "cct" ? "cct" : "pre");
    config.initialization = "pytorch";
    check_one_step([&](DType dtype) { return std::make_unique<Cct>(config, 1, dtype); }, images_of(config));
  }
}
INSTANTIATE_TEST_SUITE_P(All, EveryNormalizerOfACct, ::testing::ValuesIn(normalizer_names()),
                         [](const auto& i) { return i.param; });

}  // namespace
}  // namespace foldgrad::testing
