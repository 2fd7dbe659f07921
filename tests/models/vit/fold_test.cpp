// A folded vision Transformer is the one that was trained, whatever its normalizers; and what is left of each site.
#include <set>

#include "tests/models/fold/frozen_statistics.h"
#include "tests/models/vit/tiny_vit.h"

namespace foldgrad::testing {
namespace {

using Outcome = SiteReport::Outcome;

std::unique_ptr<Vit> random_vit(const VitConfig& config, DType dtype = DType::f64) {
  auto model = std::make_unique<Vit>(config, 1, dtype);
  randomize(*model, 100);
  randomize_statistics(*model, 1000);
  return model;
}

std::vector<VitConfig> kinds_of(const std::string& normalizer) {
  std::vector<VitConfig> all;
  for (bool pre_norm : {true, false})
    for (const char* pooling : {"cls", "mean", "sequence"})
      for (bool qkv_bias : {true, false}) {
        if (pre_norm && normalizer == "deepnorm") continue;
        all.push_back(tiny_vit(normalizer, pre_norm));
        all.back().pooling = pooling, all.back().qkv_bias = qkv_bias;
      }
  return all;
}

std::string describe(const VitConfig& config) {
  std::string text = config.normalizer + (config.pre_norm ? ", pre-norm, " : ", post-norm, ") + config.pooling;
  for (const auto& [name, value] : config.normalizer_options) text += ", " + name + " = " + value;
  return text + (config.qkv_bias ? ", biases" : "");
}

class EveryFold : public ::testing::TestWithParam<std::string> {};

// Rounding of sums in another order: f64 has some 1e-16 for each, and gains are up to ten.
TEST_P(EveryFold, GivesTheSameLogits) {
  for (const VitConfig& config : kinds_of(GetParam()))
    for (bool rescale : {false, true}) {
      SCOPED_TRACE(describe(config) + (rescale ? ", rescaled" : ""));
      const auto model = random_vit(config);
      EXPECT_LE(folding_error(*model, images_of(config), {.rescale_stream = rescale}).relative, 1e-12);
    }
}

INSTANTIATE_TEST_SUITE_P(All, EveryFold, ::testing::ValuesIn(normalizer_names()),
                         [](const auto& i) { return i.param; });

TEST(FoldVit, WithPreNormNothingIsLeftOfAnyOfflineNormalizer) {
  for (const NormalizerInfo& info : normalizers()) {
    if (!info.offline()) continue;
    for (VitConfig config : kinds_of(info.name)) {
      config.pre_norm = true;
      SCOPED_TRACE(describe(config));
      const FoldedModel folded = fold(*random_vit(config));
      ASSERT_EQ(folded.reports.size(), info.name == "none" ? 0u : 5u);
      for (const SiteReport& report : folded.reports) EXPECT_EQ(report.outcome, Outcome::folded) << report.site;
      EXPECT_EQ(vit_of(folded).config().normalizer, "none");
      EXPECT_TRUE(vit_of(folded).config().normalizer_at.empty());
      EXPECT_EQ(vit_of(folded).config().qkv_bias, config.qkv_bias || info.name != "none");
      EXPECT_TRUE(folded.model->state().empty());
    }
  }
}

std::vector<std::string> into(const FoldedModel& folded, const std::string& site) {
  for (const SiteReport& report : folded.reports)
    if (report.site == site) return report.into;
  return {};
}

TEST(FoldVit, EachSiteGoesIntoTheLayerThatReadsIt) {
  for (const char* pooling : {"cls", "mean"}) {
    VitConfig config = tiny_vit("un");
    config.pooling = pooling;
    const FoldedModel folded = fold(*random_vit(config));
    using Weights = std::vector<std::string>;
    EXPECT_EQ(into(folded, "blocks.0.norm1"), Weights{"blocks.0.attn.qkv.weight"});
    EXPECT_EQ(into(folded, "blocks.1.norm2"), Weights{"blocks.1.mlp.fc1.weight"});
    EXPECT_EQ(into(folded, "norm"), Weights{"head.weight"});
  }
}

// Each normalizer's result is the stream: the sum needs its map, unless the stream is stored divided by it.
TEST(FoldVit, WithPostNormTheSumKeepsTheMap) {
  VitConfig config = tiny_vit("un", /*pre_norm=*/false);
  const auto model = random_vit(config);
  const FoldedModel kept = fold(*model), rescaled = fold(*model, {.rescale_stream = true});
  ASSERT_EQ(kept.reports.size(), 4u);
  EXPECT_EQ(kept.reports[0].outcome, Outcome::partly);
  ASSERT_EQ(kept.reports[0].kept.size(), 1u);
  EXPECT_EQ(kept.reports[0].kept[0].edge, "blocks.0.norm1 -> blocks.0.mlp: bias_dropout_residual");
  EXPECT_EQ(kept.reports[0].kept[0].reason, "a sum, and so whatever reads the stream behind it, needs the map itself");
  EXPECT_EQ(kept.reports[3].outcome, Outcome::folded);  // whose result the head alone reads
  using Sites = std::map<std::string, std::string>;
  EXPECT_EQ(vit_of(kept).config().normalizer_at, (Sites{{"blocks.0.mlp.residual", "affine"},
                                                        {"blocks.1.attn.residual", "affine"},
                                                        {"blocks.1.mlp.residual", "affine"}}));
  EXPECT_TRUE(vit_of(rescaled).config().normalizer_at.empty());
}

TEST(FoldVit, OnlineNormalizersGiveTheirGainsAndBiases) {
  const FoldedModel folded = fold(*random_vit(tiny_vit("ln")));
  const NamedTensors values = folded.model->values();
  EXPECT_EQ(vit_of(folded).config().normalizer, "ln");
  for (const char* site : {"blocks.0.norm1", "blocks.1.norm2", "norm"}) {
    EXPECT_TRUE(close(values.at(std::string(site) + ".weight"), Tensor::full({8}, 1, DType::f64), 0)) << site;
    EXPECT_TRUE(close(values.at(std::string(site) + ".bias"), Tensor::zeros({8}, DType::f64), 0)) << site;
  }
}

TEST(FoldVit, AFoldedModelFoldsToItself) {
  const FoldedModel once = fold(*random_vit(tiny_vit("bn")));
  const FoldedModel twice = fold(*once.model);
  EXPECT_EQ(vit_of(twice).config(), vit_of(once).config());
  for (const auto& [name, value] : once.model->values()) EXPECT_TRUE(identical(twice.model->values().at(name), value));
}

// The training pass, inference and the folded model are one function where statistics are frozen.
TEST(FoldVit, WithFrozenStatisticsItIsTheTrainingPass) {
  for (const Setting& setting : settings())
    for (bool pre_norm : {true, false})
      for (std::int64_t iterations : {100, 2000}) {  // mabn and the released un correct by r from iteration 1001 on
        VitConfig config = tiny_vit(setting.normalizer, pre_norm);
        config.normalizer_options = setting.options;
        if (pre_norm) config.pooling = "mean";
        SCOPED_TRACE(describe(config));
        Vit model(config, 1, DType::f64);
        randomize(model, 1000, 0.15);
        const NamedTensors inputs = images_of(config);
        const auto training_pass = [&](Tape& tape) {
          return model.forward(inputs, {.tape = tape, .dtype = DType::f64, .training = true}).value();
        };
        freeze(
            model, iterations, [&](Tape& tape) { (void)training_pass(tape); },
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
