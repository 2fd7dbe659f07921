// Image classifiers worked out by hand, and their dropout.
#include <algorithm>
#include <cmath>

#include "tests/models/cct/tiny_cct.h"
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
  // 80 of 160 fair coins agree, with a deviation of 6.3.
  for (std::size_t a = 0; a < kept.size(); ++a)
    for (std::size_t b = a + 1; b < kept.size(); ++b) {
      int equal = 0;
      for (std::size_t i = 0; i < kBits; ++i) equal += kept[a][i] == kept[b][i];
      EXPECT_LE(equal, 120) << a << " and " << b;
    }
}

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

}  // namespace
}  // namespace foldgrad::testing
