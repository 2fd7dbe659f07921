// Compares a Swin Transformer with its equations, computed by loops over tokens. The loops neither reorder tokens into
// windows nor use segments.
#include <cmath>
#include <numbers>

#include "tests/models/swin/tiny_swin.h"

namespace foldgrad::testing {
namespace {

using Row = std::vector<double>;
using Rows = std::vector<Row>;  // the tokens of one map

Rows linear_of(const NamedTensors& p, const std::string& name, const Rows& x) {
  const Tensor W = p.at(name + ".weight");
  const std::int64_t out = W.shape()[0], in = W.size() / out;
  Rows y;
  for (const Row& row : x) {
    Row result = p.count(name + ".bias") ? p.at(name + ".bias").values<double>() : Row(std::size_t(out));
    for (std::int64_t o = 0; o < out; ++o)
      for (std::int64_t i = 0; i < in; ++i)
        result[std::size_t(o)] += W.data<double>()[o * in + i] * row[std::size_t(i)];
    y.push_back(result);
  }
  return y;
}

void add_to(Rows& x, const Rows& y) {
  for (std::size_t t = 0; t < x.size(); ++t)
    for (std::size_t c = 0; c < x[t].size(); ++c) x[t][c] += y[t][c];
}

// Returns the attention of token a in head h, which has D channels [SWIN-2, SWIN-3].
Row attended(const Rows& qkv, const Tensor& table, std::int64_t side, std::int64_t M, std::int64_t shift,
             std::int64_t a, std::int64_t h, std::int64_t D) {
  const std::int64_t heads = table.shape()[1], C = heads * D;
  const auto rolled = [&](std::int64_t place) { return (place - shift + side) % side; };
  const auto number = [&](std::int64_t t, std::int64_t group, std::int64_t d) {
    return qkv[std::size_t(t)][std::size_t(group * C + h * D + d)];
  };
  const auto crosses = [&](std::int64_t i, std::int64_t j) { return (i >= side - shift) != (j >= side - shift); };
  double sum = 0;
  Row y(std::size_t(D), 0.0);
  for (std::int64_t b = 0; b < side * side; ++b) {
    const std::int64_t ra = rolled(a / side), ca = rolled(a % side), rb = rolled(b / side), cb = rolled(b % side);
    if (ra / M != rb / M || ca / M != cb / M) continue;
    const std::int64_t row = (ra - rb + M - 1) * (2 * M - 1) + ca - cb + M - 1;
    double score = table.data<double>()[row * heads + h] - (crosses(ra, rb) || crosses(ca, cb) ? 100 : 0);
    for (std::int64_t d = 0; d < D; ++d) score += number(a, 0, d) * number(b, 1, d) / std::sqrt(double(D));
    sum += std::exp(score);
    for (std::int64_t d = 0; d < D; ++d) y[std::size_t(d)] += std::exp(score) * number(b, 2, d);
  }
  for (double& v : y) v /= sum;
  return y;
}

Rows layer_of(const NamedTensors& p, const SwinConfig& config, std::int64_t stage, std::int64_t number, Rows x) {
  const std::string name = fmt::format("layers.{}.blocks.{}", stage, number);
  const std::int64_t heads = config.heads_of(stage), D = config.width_of(stage) / heads, side = config.side_of(stage);
  const Rows qkv = linear_of(p, name + ".attn.qkv", x);
  Rows y(x.size());
  for (std::int64_t t = 0; t < side * side; ++t)
    for (std::int64_t h = 0; h < heads; ++h) {
      const Row of_head = attended(qkv, p.at(name + ".attn.relative_position_bias_table"), side,
                                   config.window_of(stage), number % 2 ? config.shift_of(stage) : 0, t, h, D);
      y[std::size_t(t)].insert(y[std::size_t(t)].end(), of_head.begin(), of_head.end());
    }
  add_to(x, linear_of(p, name + ".attn.proj", y));
  Rows hidden = linear_of(p, name + ".mlp.fc1", x);
  for (Row& row : hidden)
    for (double& v : row) v *= (1 + std::erf(v / std::numbers::sqrt2)) / 2;
  add_to(x, linear_of(p, name + ".mlp.fc2", hidden));
  return x;
}

Rows patches_of(const Tensor& images, std::int64_t size, std::int64_t patch) {  // only the first image
  Rows patches;
  for (std::int64_t t = 0; t < size / patch * (size / patch); ++t) {
    Row row;
    for (std::int64_t channel = 0; channel < 3; ++channel)
      for (std::int64_t i = 0; i < patch * patch; ++i) {
        const std::int64_t y = t / (size / patch) * patch + i / patch, x = t % (size / patch) * patch + i % patch;
        row.push_back(images.data<double>()[(y * size + x) * 3 + channel]);
      }
    patches.push_back(row);
  }
  return patches;
}

Rows neighbours_of(const Rows& x, std::int64_t side) {  // [SWIN-4]
  Rows merged;
  for (std::int64_t row = 0; row < side; row += 2)
    for (std::int64_t column = 0; column < side; column += 2) {
      Row four;
      for (std::int64_t at :
           {row * side + column, (row + 1) * side + column, row * side + column + 1, (row + 1) * side + column + 1})
        four.insert(four.end(), x[std::size_t(at)].begin(), x[std::size_t(at)].end());
      merged.push_back(four);
    }
  return merged;
}

// The model has no normalizers. A different order of summation changes a sum by about 1e-15 of its terms.
TEST(Swin, SWIN_1_IsItsEquationsTokenByToken) {
  const SwinConfig config = tiny_swin("none");
  const auto model = random_model<Swin>(config);
  const NamedTensors inputs = images_of(config, 1), p = model->values();
  Rows x = linear_of(p, "patch_embed.proj", patches_of(inputs.at("images"), config.image_size, config.patch));
  for (std::int64_t s = 0; s < config.stages(); ++s) {
    for (std::int64_t i = 0; i < config.depths[std::size_t(s)]; ++i) x = layer_of(p, config, s, i, x);
    if (s + 1 < config.stages())
      x = linear_of(p, fmt::format("layers.{}.downsample.reduction", s), neighbours_of(x, config.side_of(s)));
  }
  Rows mean{Row(x[0].size(), 0.0)};
  for (const Row& row : x) add_to(mean, {row});
  for (double& v : mean[0]) v /= double(x.size());
  const Row want = linear_of(p, "head", mean)[0];
  const Tensor logits = inference_logits(*model, inputs, DType::f64);
  ASSERT_EQ(logits.shape(), (Shape{1, config.classes}));
  for (std::size_t k = 0; k < want.size(); ++k)
    EXPECT_NEAR(logits.data<double>()[k], want[k], 1e-11 * std::max(1.0, std::abs(want[k])));
}

}  // namespace
}  // namespace foldgrad::testing
