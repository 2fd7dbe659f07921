// A decoder-only Transformer against one put together from operations; its gradients; what is left of one that is
// folded.
#include <cmath>

#include "ops/activation/activation.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/attention/attention.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/embedding/embedding.h"
#include "ops/positions/positions.h"
#include "ops/reshape/reshape.h"
#include "tests/models/assembled.h"
#include "tests/models/gpt/tiny_gpt.h"

namespace foldgrad::testing {
namespace {

// With layer normalization and gelu, without dropout; all sequences are of one length.
class AssembledGpt : public Assembled {
 public:
  explicit AssembledGpt(const Gpt& model) : Assembled(model.values()), config_(model.config()) {}

  // For ids [B, T].
  Var logits(const Tensor& ids) {
    const Segments rows = Segments::equal(ids.shape()[0], ids.shape()[1]);
    Var x = embedded(ids, rows);
    for (std::int64_t i = 0; i < config_.layers; ++i) {
      const std::string h = fmt::format("h.{}.", i);
      x = sublayer(h + "ln_1", x, [&](const Var& in) {
        const AttentionOptions options{.heads = int(config_.heads), .causal = true};
        return project(h + "attn.c_proj", attention_packed(project(h + "attn.c_attn", in), options, rows));
      });
      x = sublayer(h + "ln_2", x,
                   [&](const Var& in) { return project(h + "mlp.c_proj", gelu(project(h + "mlp.c_fc", in))); });
    }
    return project(config_.tied ? "wte" : "lm_head", config_.pre_norm ? norm("ln_f", x) : x);
  }
  // Summed over the tokens.
  double loss(const Tensor& ids, const Tensor& targets, double label_smoothing) {
    return cross_entropy(logits(ids), tape_.constant(targets.reshape({targets.size()})),
                         {.label_smoothing = label_smoothing, .reduction = Reduction::sum})
        .value()
        .item();
  }

 private:
  Var embedded(const Tensor& ids, const Segments& rows) {
    const std::int64_t N = ids.size(), C = config_.width;
    if (config_.positions == "learned") {
      const Var x = embedding(value("wte.weight"), tape_.constant(ids));
      return reshape(learned_positions(x, value("wpe.weight")), {N, C});
    }
    const Var x = embedding(value("wte.weight"), tape_.constant(ids.reshape({N})), std::sqrt(double(C)));
    return sinusoidal_positions(x, rows.places(), sinusoidal_table(ids.shape()[1] + 2, C, x.dtype()));
  }
  template <class Branch>
  Var sublayer(const std::string& name, const Var& x, const Branch& branch) {
    return config_.pre_norm ? add(x, branch(norm(name, x))) : norm(name, add(x, branch(x)));
  }

  const GptConfig config_;
};

// Some thirty sums of a dozen products one after the other, each of which is rounded at 1e-16.
TEST(Gpt, GPT_1_GPT_2_GPT_3_IsTheModelAssembledByHand) {
  for (const GptConfig& config : gpt_kinds("ln")) {
    SCOPED_TRACE(describe(config));
    const auto model = random_gpt(config);
    const NamedTensors inputs = sequences_of(config);
    AssembledGpt assembled(*model);
    const Tensor want = assembled.logits(inputs.at("ids")).value();
    EXPECT_TRUE(close(inference_logits(*model, inputs, DType::f64), want.reshape({3, 5, 7}), 1e-13));
    const double loss = assembled.loss(inputs.at("ids"), inputs.at("target"), 0.1);
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
