// Compares a decoder-only Transformer with one assembled by hand from operations, and tests its folded form.
#include "ops/activation/activation.h"
#include "ops/affine/affine.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/attention/attention.h"
#include "ops/concat/concat.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/embedding/embedding.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/linear/linear.h"
#include "ops/positions/positions.h"
#include "ops/reshape/reshape.h"
#include "ops/rotary/rotary.h"
#include "tests/models/gpt/tiny_gpt.h"

namespace foldgrad::testing {
namespace {

// An independent forward pass from plain operations: layer normalization, gelu or a silu gate, no dropout.
class GptByHand {
 public:
  explicit GptByHand(const Gpt& model) : config_(model.config()), values_(model.values()) {}

  // Returns the logits for sequences [B, T], one row for each token.
  Var logits(const Tensor& ids) {
    const Segments rows = Segments::equal(ids.shape()[0], ids.shape()[1]);
    Var x = embedded(ids, rows);
    for (std::int64_t i = 0; i < config_.layers; ++i) {
      const std::string h = fmt::format("h.{}.", i);
      x = sublayer(h + "ln_1", x, [&](const Var& in) {
        Var qkv = project(h + "attn.c_attn", in);
        if (config_.positions == "rotary") qkv = turned(qkv, rows.places());
        return project(h + "attn.c_proj", attention_packed(qkv, {.heads = int(config_.heads), .causal = true}, rows));
      });
      x = sublayer(h + "ln_2", x, [&](const Var& in) { return project(h + "mlp.c_proj", hidden(h + "mlp.", in)); });
    }
    return project(config_.tied ? "wte" : "lm_head", config_.pre_norm ? norm("ln_f", x) : x);
  }

 private:
  Var embedded(const Tensor& ids, const Segments& rows) {
    const std::int64_t C = config_.width;
    const bool sines = config_.positions == "sinusoidal";
    const Var x = embedding(value("wte.weight"), tape_.constant(ids), sines ? std::sqrt(double(C)) : 1);
    if (config_.positions == "rotary") return reshape(scale_by(x, value("wte.scale")), {rows.rows(), C});
    if (!sines) return reshape(learned_positions(x, value("wpe.weight")), {rows.rows(), C});
    const Tensor table = sinusoidal_table(/*rows=*/8, C, DType::f64);
    return sinusoidal_positions(reshape(x, {rows.rows(), C}), rows.places(), table);
  }
  // Rotates the queries and the keys of each head separately.
  Var turned(const Var& qkv, const Tensor& places) {
    const std::int64_t C = config_.width, D = C / config_.heads;
    const RotaryTable table(/*places=*/5, D, 10000, DType::f64);
    std::vector<Var> parts;
    for (std::int64_t c = 0; c < 2 * C; c += D) parts.push_back(rotary(slice(qkv, 1, c, c + D), places, table, D));
    parts.push_back(slice(qkv, 1, 2 * C, 3 * C));
    return concat(parts, 1);
  }
  Var hidden(const std::string& mlp, const Var& in) {
    const Var up = project(mlp + "c_fc", in);
    return config_.gated ? mul(up, silu(project(mlp + "c_gate", in))) : gelu(up);
  }
  template <class Branch>
  Var sublayer(const std::string& name, const Var& x, const Branch& branch) {
    const Var sum = add(x, branch(config_.pre_norm ? norm(name, x) : x));
    return config_.pre_norm ? sum : norm(name, sum);
  }
  Var norm(const std::string& name, const Var& x) {
    return layer_norm(x, value(name + ".weight"), value(name + ".bias"));
  }
  Var project(const std::string& name, const Var& x) {
    const Var weight = value(name + ".weight");
    return values_.count(name + ".bias") ? linear(x, weight, value(name + ".bias")) : linear(x, weight);
  }
  Var value(const std::string& name) { return tape_.constant(values_.at(name)); }

  const GptConfig config_;
  const NamedTensors values_;
  Tape tape_{/*recording=*/false};
};

TEST(Gpt, GPT_1_GPT_2_GPT_3_IsTheModelAssembledByHand) {
  for (const GptConfig& config : gpt_kinds("ln")) {
    SCOPED_TRACE(describe(config));
    const auto model = random_gpt(config);
    const NamedTensors inputs = sequences_of(config);
    GptByHand by_hand(*model);
    const Var logits = by_hand.logits(inputs.at("ids")),
              target = logits.tape().constant(inputs.at("target").reshape({15}));
    const CrossEntropyOptions options{.label_smoothing = 0.1, .reduction = Reduction::sum};
    const double loss = cross_entropy(logits, target, options).value().item();
    EXPECT_TRUE(close(inference_logits(*model, inputs, DType::f64), logits.value(), 1e-13));
    EXPECT_NEAR(loss_of(*model, inputs), loss, 1e-13 * loss);
  }
}

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
    EXPECT_NEAR(zeros, 60, 30);  // the standard deviation of the number of zeros is 5.5
  }
}

// The test changes token 3 of each sequence. The logits of tokens 0 to 2 must stay bit-identical, since the matrix
// products have the same sizes. The logits of tokens 3 and 4 must differ.
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
        const auto logits = [&](const Tensor& t) { return t.slice(row, row + 1); };
        EXPECT_EQ(bool(identical(logits(after), logits(before))), row % 5 < 3) << row;
      }
    }
}

using Tied = FoldOptions::Tied;
using Outcome = SiteReport::Outcome;

const GptConfig& config_of(const FoldedModel& folded) { return dynamic_cast<Gpt&>(*folded.model).config(); }

// We skip centernorm with post-norm: it mixes channels, so the stream cannot be divided by its map.
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
      // Folding turns the bias of the last normalizer into an output bias. `scale` has no bias, but with post-norm,
      // rescaling the stream turns the biases of the last sublayer into an output bias.
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
