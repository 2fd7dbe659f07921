// Image classifiers worked out by hand, and their dropout.
#include <algorithm>
#include <cmath>

#include "tests/models/images/kinds.h"

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

struct Window {
  std::int64_t kernel, stride, padding;
};

// Calls visit(y, x, v, w) for every y of the result and each x that its window has, at v and w of it.
template <class Visit>
Maps slid(Maps x, std::int64_t channels, double first, const Window& o, const Visit& visit) {
  const std::int64_t side = (x.side + 2 * o.padding - o.kernel) / o.stride + 1;
  Maps y{x.batch, side, channels, std::vector<double>(std::size_t(x.batch * side * side * channels), first)};
  for (std::int64_t b = 0; b < y.batch; ++b)
    for (std::int64_t i = 0; i < y.side; ++i)
      for (std::int64_t j = 0; j < y.side; ++j)
        for (std::int64_t v = 0; v < o.kernel; ++v)
          for (std::int64_t w = 0; w < o.kernel; ++w) {
            const std::int64_t row = o.stride * i + v - o.padding, column = o.stride * j + w - o.padding;
            if (x.has(row, column)) visit(&y(b, i, j, 0), &x(b, row, column, 0), v, w);
          }
  return y;
}
Maps convolved(const Maps& x, const Tensor& W, const Window& o) {
  return slid(x, W.shape()[0], 0, o, [&](double* y, const double* in, std::int64_t v, std::int64_t w) {
    for (std::int64_t out = 0; out < W.shape()[0]; ++out)
      for (std::int64_t c = 0; c < x.channels; ++c)
        y[out] += at(W, ((out * x.channels + c) * o.kernel + v) * o.kernel + w) * in[c];
  });
}
Maps pooled(const Maps& x, const Window& o) {
  return slid(x, x.channels, -INFINITY, o, [&](double* y, const double* in, std::int64_t, std::int64_t) {
    for (std::int64_t c = 0; c < x.channels; ++c) y[c] = std::max(y[c], in[c]);
  });
}

// Returns the result of an affine normalizer.
double mapped(Normalizer& norm, double u, std::int64_t c) {
  const std::vector<Parameter*> p = norm.parameters();
  return at(p[0]->value, c) * u + at(p[1]->value, c);
}

Maps tokens_by_hand(Vit& model, const Maps& image) {
  const std::int64_t P = model.config().patch;
  const ConvLayer& conv = model.stem()[0];
  Maps x = convolved(image, conv.weight.value, {P, P, 0});
  for (std::size_t i = 0; i < x.values.size(); ++i) x.values[i] += at(conv.bias.value, std::int64_t(i) % x.channels);
  return x;
}
Maps tokens_by_hand(Cct& model, Maps x) {
  for (ConvLayer& conv : model.stem()) {
    x = convolved(x, conv.weight.value, {3, 1, 1});
    for (std::size_t i = 0; i < x.values.size(); ++i) {
      double& u = x.values[i];
      if (conv.norm) u = mapped(*conv.norm, u, std::int64_t(i) % x.channels);
      u = conv.norm ? u * 0.5 * std::erfc(-u / std::sqrt(2.0)) : std::max(u, 0.0);
    }
    if (!conv.norm) x = pooled(x, {3, 2, 1});
    if (conv.norm && &conv != &model.stem()[0]) x = pooled(x, {2, 2, 0});
  }
  return x;
}

using Tokens = std::vector<std::vector<double>>;  // of one image

// Runs layers whose attention adds nothing, and whose feed-forward blocks add their last bias alone.
Tokens layers_by_hand(ImageModel& model, Tokens x, bool norm_on_stream) {
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
      u = mapped(*model.norm(), u, channel);
    }
  return x;
}

double score(const LinearLayer& layer, std::int64_t row, const std::vector<double>& x) {
  double sum = at(layer.bias.value, row);
  for (std::size_t c = 0; c < x.size(); ++c) sum += at(layer.weight.value, row * std::int64_t(x.size()) + c) * x[c];
  return sum;
}

std::vector<double> pooled(ImageModel& model, const Tokens& x) {
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
  const Tensor& images = inputs.at("images");
  Maps tokens = tokens_by_hand(model, Maps{3, config.image_size, 3, images.values<double>()});
  ASSERT_EQ(tokens.side * tokens.side + config.has_cls(), config.tokens());
  const Tensor want = Tensor::empty({3, config.classes}, DType::f64);
  for (std::int64_t b = 0; b < 3; ++b) {
    Tokens x;
    if (model.cls()) x.push_back(model.cls()->value.template values<double>());
    for (std::int64_t t = 0; t < tokens.side * tokens.side; ++t) {
      const double* first = &tokens(b, t / tokens.side, t % tokens.side, 0);
      x.emplace_back(first, first + tokens.channels);
    }
    const std::vector<double> one = pooled(model, layers_by_hand(model, std::move(x), norm_on_stream));
    for (std::int64_t k = 0; k < config.classes; ++k)
      want.data<double>()[b * config.classes + k] = score(model.head(), k, one);
  }
  EXPECT_TRUE(close(inference_logits(model, inputs, DType::f64), want, 1e-13));
}

TEST(Vit, VIT_1_VIT_2_CCT_3_WorkedByHand) {
  for (const char* pooling : {"cls", "mean", "sequence"}) {
    VitConfig config = tiny_vit("affine");
    config.pooling = pooling;
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
