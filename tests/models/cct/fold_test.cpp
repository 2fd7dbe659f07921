// A folded Compact Convolutional Transformer is the one that was trained, whatever its normalizers; and what is left of
// each site.
#include "tests/models/cct/tiny_cct.h"
#include "tests/models/fold/frozen_statistics.h"

namespace foldgrad::testing {
namespace {

using Outcome = SiteReport::Outcome;
using Weights = std::vector<std::string>;
using Sites = std::map<std::string, std::string>;

std::unique_ptr<Cct> random_cct(const CctConfig& config) {
  auto model = std::make_unique<Cct>(config, 1, DType::f64);
  randomize(*model, 100);
  randomize_statistics(*model, 1000);
  return model;
}

std::vector<CctConfig> kinds_of(const std::string& normalizer) {
  std::vector<CctConfig> all;
  for (const char* stem : {"cct", "hybrid"})
    for (const char* block : {"pre", "cct"})
      for (const char* pooling : {"sequence", "mean"}) {
        all.push_back(tiny_cct(normalizer, stem, block));
        all.back().pooling = pooling;
      }
  return all;
}

std::string describe(const CctConfig& config) {
  return config.normalizer + ", stem " + config.stem + ", block " + config.block + ", " + config.pooling;
}

class EveryFoldOfACct : public ::testing::TestWithParam<std::string> {};

// Rounding of sums in another order: f64 has some 1e-16 for each, and gains are up to ten.
TEST_P(EveryFoldOfACct, GivesTheSameLogits) {
  if (GetParam() == "deepnorm") GTEST_SKIP() << "deepnorm is for post-norm";
  for (const CctConfig& config : kinds_of(GetParam()))
    for (bool rescale : {false, true}) {
      SCOPED_TRACE(describe(config) + (rescale ? ", rescaled" : ""));
      const auto model = random_cct(config);
      EXPECT_LE(folding_error(*model, images_of(config), {.rescale_stream = rescale}).relative, 1e-12);
    }
}
INSTANTIATE_TEST_SUITE_P(All, EveryFoldOfACct, ::testing::ValuesIn(normalizer_names()),
                         [](const auto& i) { return i.param; });

TEST(FoldCct, NothingIsLeftOfAnyOfflineNormalizer) {
  for (const NormalizerInfo& info : normalizers()) {
    if (!info.offline()) continue;
    for (const CctConfig& config : kinds_of(info.name)) {
      SCOPED_TRACE(describe(config));
      const FoldedModel folded = fold(*random_cct(config), {.rescale_stream = true});
      // centernorm mixes channels, so that the stream cannot be divided by it.
      const bool kept = config.block == "cct" && info.name == "centernorm";
      const std::size_t sites = config.stem == "hybrid" ? 7 : 5;
      ASSERT_EQ(folded.reports.size(), info.name == "none" ? 0 : sites);
      for (const SiteReport& report : folded.reports) {
        const bool on_stream = kept && report.site.ends_with("norm1");
        EXPECT_EQ(report.outcome, on_stream ? Outcome::partly : Outcome::folded) << report.site;
      }
      EXPECT_EQ(cct_of(folded).config().normalizer, "none");
      EXPECT_EQ(cct_of(folded).config().normalizer_at.size(), kept ? 2u : 0u);
      EXPECT_EQ(cct_of(folded).config().qkv_bias, info.name != "none");
      EXPECT_TRUE(folded.model->state().empty());
    }
  }
}

Weights into(const FoldedModel& folded, const std::string& site) {
  for (const SiteReport& report : folded.reports)
    if (report.site == site) return report.into;
  return {};
}

TEST(FoldCct, EachSiteGoesIntoTheLayersThatReadItAndTheStemsIntoTheirConvolutions) {
  const FoldedModel folded = fold(*random_cct(tiny_cct("un", "hybrid")));
  EXPECT_EQ(into(folded, "tokenizer.conv_layers.0.norm"), Weights{"tokenizer.conv_layers.0.0.weight"});
  EXPECT_EQ(into(folded, "tokenizer.conv_layers.1.norm"), Weights{"tokenizer.conv_layers.1.0.weight"});
  EXPECT_EQ(into(folded, "classifier.blocks.0.pre_norm"), Weights{"classifier.blocks.0.self_attn.qkv.weight"});
  EXPECT_EQ(into(folded, "classifier.blocks.1.norm1"), Weights{"classifier.blocks.1.linear1.weight"});
  EXPECT_EQ(into(folded, "classifier.norm"), (Weights{"classifier.attention_pool.weight", "classifier.fc.weight"}));
  EXPECT_TRUE(folded.model->values().count("tokenizer.conv_layers.0.0.bias"));
}

// The published block: norm1's result is the stream, which the sum needs, unless it is stored divided by the map.
TEST(FoldCct, OnTheStreamTheSumKeepsTheMap) {
  const auto model = random_cct(tiny_cct("un", "cct", "cct"));
  const FoldedModel kept = fold(*model), rescaled = fold(*model, {.rescale_stream = true});
  ASSERT_EQ(kept.reports.size(), 5u);
  const SiteReport& norm1 = kept.reports[1];
  EXPECT_EQ(norm1.site, "classifier.blocks.0.norm1");
  EXPECT_EQ(norm1.outcome, Outcome::partly);
  EXPECT_EQ(norm1.into, Weights{"classifier.blocks.0.linear1.weight"});
  ASSERT_EQ(norm1.kept.size(), 1u);
  EXPECT_EQ(norm1.kept[0].edge, "classifier.blocks.0.norm1 -> classifier.blocks.0.mlp: bias_dropout_residual");
  EXPECT_EQ(cct_of(kept).config().normalizer_at,
            (Sites{{"classifier.blocks.0.mlp.residual", "affine"}, {"classifier.blocks.1.mlp.residual", "affine"}}));
  EXPECT_TRUE(cct_of(rescaled).config().normalizer_at.empty());
}

TEST(FoldCct, OnlineNormalizersGiveTheirGainsAndBiasesBehindTheStem) {
  const FoldedModel folded = fold(*random_cct(tiny_cct("ln", "hybrid")));
  const NamedTensors values = folded.model->values();
  for (const char* site : {"classifier.blocks.0.pre_norm", "classifier.blocks.1.norm1", "classifier.norm"}) {
    EXPECT_TRUE(close(values.at(std::string(site) + ".weight"), Tensor::full({8}, 1, DType::f64), 0)) << site;
    EXPECT_TRUE(close(values.at(std::string(site) + ".bias"), Tensor::zeros({8}, DType::f64), 0)) << site;
  }
  // A statistic stands between these and their convolution, and a gelu behind them.
  EXPECT_FALSE(close(values.at("tokenizer.conv_layers.0.norm.weight"), Tensor::full({4}, 1, DType::f64), 1e-3));
}

TEST(FoldCct, AFoldedModelFoldsToItself) {
  const FoldedModel once = fold(*random_cct(tiny_cct("bn", "hybrid")));
  const FoldedModel twice = fold(*once.model);
  EXPECT_EQ(cct_of(twice).config(), cct_of(once).config());
  for (const auto& [name, value] : once.model->values()) EXPECT_TRUE(identical(twice.model->values().at(name), value));
}

// The training pass, inference and the folded model are one function where statistics are frozen.
TEST(FoldCct, WithFrozenStatisticsItIsTheTrainingPass) {
  for (const Setting& setting : settings())
    for (const char* stem : {"cct", "hybrid"}) {
      CctConfig config = tiny_cct(setting.normalizer, stem, std::string(stem) == "cct" ? "cct" : "pre");
      config.normalizer_options = setting.options;
      SCOPED_TRACE(describe(config));
      Cct model(config, 1, DType::f64);
      randomize(model, 1000, 0.15);
      const NamedTensors inputs = images_of(config);
      const auto training_pass = [&](Tape& tape) {
        return model.forward(inputs, {.tape = tape, .dtype = DType::f64, .training = true}).value();
      };
      freeze(
          model, 2000, [&](Tape& tape) { (void)training_pass(tape); },
          [](const Normalizer&, const Tensor& x) {
            return x.reshape({x.size() / x.shape()[-1], x.shape()[-1]});
          });
      const FoldedModel folded = fold(model, {.rescale_stream = true});
      const Tensor inference = inference_logits(model, inputs, DType::f64),
                   folded_logits = inference_logits(*folded.model, inputs, DType::f64);
      Tape tape(/*recording=*/false);
      const Tensor want = training_pass(tape);
      EXPECT_LE(difference(inference, want).relative, 1e-12);
      EXPECT_LE(difference(folded_logits, want).relative, 1e-12);
    }
}

}  // namespace
}  // namespace foldgrad::testing
