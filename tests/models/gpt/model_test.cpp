// A decoder-only Transformer against one by loops; its gradients; what is left of one that is folded.
#include <cmath>

#include "tests/models/gpt/tiny_gpt.h"

namespace foldgrad::testing {
namespace {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

// A model with layer normalization and gelu, without dropout.
class GptByHand {
 public:
  explicit GptByHand(const Gpt& model) : config_(model.config()), values_(model.values()) {}

  // Returns a row for each token of one sequence.
  Rows logits(const std::vector<std::int64_t>& ids) const {
    Rows x;
    for (std::size_t t = 0; t < ids.size(); ++t) x.push_back(embedded(ids[t], int(t)));
    for (std::int64_t i = 0; i < config_.layers; ++i) {
      const std::string h = fmt::format("h.{}.", i);
      x = sublayer(h + "ln_1", x,
                   [&](const Rows& in) { return linear(h + "attn.c_proj", attended(linear(h + "attn.c_attn", in))); });
      x = sublayer(h + "ln_2", x, [&](const Rows& in) {
        Rows hidden = linear(h + "mlp.c_fc", in);
        for (Row& row : hidden)
          for (double& u : row) u *= 0.5 * std::erfc(-u / std::sqrt(2.0));
        return linear(h + "mlp.c_proj", hidden);
      });
    }
    return linear(config_.tied ? "wte" : "lm_head", config_.pre_norm ? normalized("ln_f", x) : x);
  }

 private:
  double at(const std::string& name, std::int64_t i) const { return values_.at(name).data<double>()[i]; }
  Row embedded(std::int64_t id, int place) const {
    const std::int64_t C = config_.width, half = C / 2;
    Row x;
    for (std::int64_t c = 0; c < C; ++c) {
      const double embedding = at("wte.weight", id * C + c);
      const double angle = (place + 2) * std::pow(10000, -double(c % half) / double(half - 1));
      x.push_back(config_.positions == "learned"
                      ? embedding + at("wpe.weight", place * C + c)
                      : std::sqrt(double(C)) * embedding + (c < half ? std::sin(angle) : std::cos(angle)));
    }
    return x;
  }
  template <class Branch>
  Rows sublayer(const std::string& norm, const Rows& x, const Branch& branch) const {
    Rows sum = branch(config_.pre_norm ? normalized(norm, x) : x);
    for (std::size_t t = 0; t < x.size(); ++t)
      for (std::size_t c = 0; c < x[t].size(); ++c) sum[t][c] += x[t][c];
    return config_.pre_norm ? sum : normalized(norm, sum);
  }
  Rows normalized(const std::string& name, Rows x) const {
    for (Row& row : x) {
      double mean = 0, variance = 0;
      for (const double u : row) mean += u / double(row.size());
      for (const double u : row) variance += (u - mean) * (u - mean) / double(row.size());
      for (std::size_t c = 0; c < row.size(); ++c)
        row[c] = (row[c] - mean) / std::sqrt(variance + 1e-5) * at(name + ".weight", std::int64_t(c)) +
                 at(name + ".bias", std::int64_t(c));
    }
    return x;
  }
  Rows linear(const std::string& name, const Rows& x) const {
    const std::int64_t out = values_.at(name + ".weight").shape()[0], in = values_.at(name + ".weight").shape()[1];
    Rows y;
    for (const Row& row : x) {
      y.emplace_back();
      for (std::int64_t o = 0; o < out; ++o) {
        double sum = values_.count(name + ".bias") ? at(name + ".bias", o) : 0;
        for (std::int64_t i = 0; i < in; ++i) sum += at(name + ".weight", o * in + i) * row[std::size_t(i)];
        y.back().push_back(sum);
      }
    }
    return y;
  }
  // Returns the attention of queries, keys and values that stand side by side.
  Rows attended(const Rows& qkv) const {
    const auto C = std::size_t(config_.width), D = C / std::size_t(config_.heads);
    Rows y(qkv.size(), Row(C));
    for (std::size_t first = 0; first < C; first += D)
      for (std::size_t t = 0; t < qkv.size(); ++t) {
        Row weights;
        double total = 0;
        for (std::size_t earlier = 0; earlier <= t; ++earlier) {
          double score = 0;
          for (std::size_t d = first; d < first + D; ++d) score += qkv[t][d] * qkv[earlier][C + d];
          weights.push_back(std::exp(score / std::sqrt(double(D))));
          total += weights.back();
        }
        for (std::size_t earlier = 0; earlier <= t; ++earlier)
          for (std::size_t d = first; d < first + D; ++d) y[t][d] += weights[earlier] / total * qkv[earlier][2 * C + d];
      }
    return y;
  }

  const GptConfig config_;
  const NamedTensors values_;
};

// Some thirty sums of a dozen products one after the other, each of which is rounded at 1e-16.
TEST(Gpt, GPT_1_GPT_2_GPT_3_IsTheModelWorkedByHand) {
  for (const GptConfig& config : gpt_kinds("ln")) {
    SCOPED_TRACE(describe(config));
    const auto model = random_gpt(config);
    const NamedTensors inputs = sequences_of(config);
    const std::vector<std::int64_t> ids = inputs.at("ids").values<std::int64_t>(),
                                    targets = inputs.at("target").values<std::int64_t>();
    Row all;
    double loss = 0;
    for (std::size_t first = 0; first < ids.size(); first += 5) {
      const Rows logits = GptByHand(*model).logits({ids.begin() + first, ids.begin() + first + 5});
      for (std::size_t t = 0; t < 5; ++t) {
        double sum = 0;
        for (std::size_t k = 0; k < 7; ++k) {
          const double z = logits[t][k], share = std::int64_t(k) == targets[first + t] ? 0.9 : 0.1 / 6;
          all.push_back(z);
          sum += std::exp(z);
          loss -= share * z;
        }
        loss += std::log(sum);
      }
    }
    EXPECT_TRUE(close(inference_logits(*model, inputs, DType::f64), Tensor::of({3, 5, 7}, all), 1e-13));
    EXPECT_NEAR(loss_of(*model, inputs), loss, 1e-13 * loss);  // with labels smoothed by 0.1
  }
}

TEST(Gpt, GradientsWithDropout) {
  GptConfig config = tiny_gpt();
  config.dropout = config.attention_dropout = config.activation_dropout = 0.2;
  check_gradients_of<Gpt>(config);
}
TEST(Gpt, GradientsWithUnInItsWarmUpSinesAndAProjectionOfItsOwn) {
  GptConfig config = tiny_gpt("un");
  config.normalizer_options = {{"warmup", "100"}};
  config.positions = "sinusoidal", config.tied = false, config.output_bias = true;
  check_gradients_of<Gpt>(config);
}
TEST(Gpt, GradientsWithDeepNorm) { check_gradients_of<Gpt>(tiny_gpt("deepnorm", /*pre_norm=*/false)); }

TEST(Gpt, GPT_1_EmbeddingsWithTheirPositionsAreDropped) {
  for (GptConfig config : gpt_kinds("none")) {
    config.dropout = 0.5;
    const auto model = random_gpt(config);
    const auto embedded = [&](bool training) {
      Tape tape;
      const Segments rows = Segments::equal(3, 5);
      return model
          ->embed(sequences_of(config).at("ids").reshape({15}), rows.places(),
                  {.tape = tape, .dtype = DType::f64, .training = training})
          .value()
          .values<double>();
    };
    const std::vector<double> whole = embedded(false), dropped = embedded(true);
    int zeros = 0;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      zeros += dropped[i] == 0;
      EXPECT_TRUE(dropped[i] == 0 || dropped[i] == 2 * whole[i]) << i;
    }
    EXPECT_NEAR(zeros, 60, 30);  // of 120 fair coins, with a deviation of 5.5
  }
}

// Bit for bit, since the products have the same sizes. From the changed token on, all logits differ.
TEST(Gpt, LaterTokensChangeNoEarlierLogits) {
  for (const std::string& normalizer : normalizer_names())
    for (const GptConfig& config : gpt_kinds(normalizer)) {
      SCOPED_TRACE(describe(config));
      const auto model = random_gpt(config);
      if (model->normalizers()[0]->mixes_tokens()) continue;
      NamedTensors inputs = sequences_of(config);
      const Tensor before = inference_logits(*model, inputs, DType::f64);
      for (std::int64_t sequence = 0; sequence < 3; ++sequence) {
        std::int64_t& id = inputs.at("ids").data<std::int64_t>()[5 * sequence + 3];
        id = (id + 1) % config.vocabulary;
      }
      const Tensor after = inference_logits(*model, inputs, DType::f64);
      for (std::int64_t row = 0; row < 15; ++row) {
        const auto logits = [&](const Tensor& t) { return t.reshape({15, 7}).slice(row, row + 1); };
        EXPECT_EQ(bool(identical(logits(after), logits(before))), row % 5 < 3) << row;
      }
    }
}

using Tied = FoldOptions::Tied;
using Outcome = SiteReport::Outcome;

const GptConfig& config_of(const FoldedModel& folded) { return dynamic_cast<Gpt&>(*folded.model).config(); }

// With post-norm centernorm mixes channels, so that the stream cannot be divided by it.
TEST(FoldGpt, LeavesNothingOfOfflineNormalizers) {
  for (const NormalizerInfo& info : normalizers())
    for (const GptConfig& config : gpt_kinds(info.name)) {
      if (!info.offline() || info.name == "none" || (info.name == "centernorm" && !config.pre_norm)) continue;
      SCOPED_TRACE(describe(config));
      const auto model = random_gpt(config);
      const FoldedModel folded = fold(*model, {.tied = Tied::untie, .rescale_stream = true});
      EXPECT_EQ(folded.reports.size(), model->normalizers().size());
      for (const SiteReport& report : folded.reports) EXPECT_EQ(report.outcome, Outcome::folded) << report.site;
      EXPECT_EQ(config_of(folded).normalizer, "none");
      EXPECT_TRUE(config_of(folded).normalizer_at.empty());
      EXPECT_FALSE(config_of(folded).tied);
      // A scale leaves nothing to add but, in a rescaled stream, the biases of the last sublayer.
      EXPECT_EQ(config_of(folded).output_bias, config.output_bias || info.name != "scale" || !config.pre_norm);
      EXPECT_TRUE(folded.model->state().empty());
    }
}

TEST(FoldGpt, WhatIsTiedIsKeptAsAsked) {
  const auto model = random_gpt(tiny_gpt("un"));
  const FoldedModel refused = fold(*model), kept = fold(*model, {.tied = Tied::keep});
  EXPECT_EQ(refused.reports.back().site, "ln_f");
  EXPECT_EQ(refused.reports.back().outcome, Outcome::kept);
  ASSERT_EQ(refused.reports.back().kept.size(), 1u);
  EXPECT_EQ(refused.reports.back().kept[0].edge, "ln_f -> lm_head: linear");
  using Sites = std::map<std::string, std::string>;
  EXPECT_EQ(config_of(refused).normalizer_at, (Sites{{"ln_f", "affine"}}));
  EXPECT_FALSE(config_of(refused).output_bias);
  EXPECT_EQ(config_of(kept).normalizer_at, (Sites{{"ln_f", "scale"}}));
  EXPECT_TRUE(config_of(kept).output_bias);
  EXPECT_TRUE(config_of(refused).tied && config_of(kept).tied);
}

}  // namespace
}  // namespace foldgrad::testing
