// Tests image classifiers of every family: empty batches, folding, and the maps that folding leaves at each site.
#include "engine/device.h"
#include "ops/conv2d/conv2d.h"
#include "ops/power_norm/power_norm.h"
#include "tests/models/fold/frozen_statistics.h"
#include "tests/models/images/kinds.h"

namespace foldgrad::testing {
namespace {

template <class M>
class ImagesOnADevice : public ::testing::Test {};
TYPED_TEST_SUITE(ImagesOnADevice, ImageFamilies);

// With several ranks, a rank may get none of the images of a batch.
TYPED_TEST(ImagesOnADevice, MayBeNone) {
  for (const Device device : {Device::cpu, Device::cuda}) {
    if (device == Device::cuda && !cuda_available()) continue;
    TypeParam model(Kinds<TypeParam>::few("un")[0], 1, DType::f32, device);
    const std::int64_t side = model.config().image_size;
    Tape tape;
    const Var loss = model.loss(
        {{"images", Tensor::zeros({0, side, side, 3}, DType::u8)}, {"target", Tensor::zeros({0}, DType::i64)}},
        {.tape = tape, .dtype = DType::f32, .training = true}, 0.1);
    tape.backward(loss);
    EXPECT_EQ(loss.value().item(), 0) << name(device);
    for (const Parameter* p : model.parameters()) EXPECT_TRUE(p->has_grad) << p->name << ", " << name(device);
  }
}

using Outcome = SiteReport::Outcome;
using Weights = std::vector<std::string>;
using Sites = std::map<std::string, std::string>;

template <class M>
const auto& config_of(const FoldedModel& folded) {
  return dynamic_cast<M&>(*folded.model).config();
}

// Return true if the result of norm1 is the residual stream.
bool has_norm_on_stream(const VitConfig& config) { return !config.pre_norm; }
bool has_norm_on_stream(const CctConfig& config) { return config.block == "cct"; }
bool has_norm_on_stream(const T2tConfig&) { return false; }
bool has_norm_on_stream(const SwinConfig&) { return false; }

template <class M>
class FoldImages : public ::testing::Test {};
TYPED_TEST_SUITE(FoldImages, ImageFamilies);

TYPED_TEST(FoldImages, LeavesNothingOfOfflineNormalizers) {
  for (const NormalizerInfo& info : normalizers()) {
    if (!info.offline()) continue;
    for (const auto& config : Kinds<TypeParam>::all(info.name)) {
      if (!config.pre_norm) continue;
      SCOPED_TRACE(describe(config));
      const auto model = random_model<TypeParam>(config);
      const FoldedModel folded = fold(*model, {.rescale_stream = true});
      // centernorm mixes channels, so the stream cannot be divided by its map.
      const bool kept = has_norm_on_stream(config) && info.name == "centernorm";
      ASSERT_EQ(folded.reports.size(), info.name == "none" ? 0 : model->normalizers().size());
      for (const SiteReport& report : folded.reports) {
        const bool on_stream = kept && report.site.ends_with("norm1");
        EXPECT_EQ(report.outcome, on_stream ? Outcome::partly : Outcome::folded) << report.site;
      }
      EXPECT_EQ(config_of<TypeParam>(folded).normalizer, "none");
      EXPECT_EQ(config_of<TypeParam>(folded).normalizer_at.size(), kept ? 2u : 0u);
      EXPECT_EQ(config_of<TypeParam>(folded).qkv_bias, config.qkv_bias || info.name != "none");
      EXPECT_TRUE(folded.model->state().empty());
    }
  }
}

// With frozen statistics, the training pass, inference and the folded model compute the same function.
TYPED_TEST(FoldImages, WithFrozenStatisticsItIsTheTrainingPass) {
  for (const Setting& setting : settings())
    for (auto config : Kinds<TypeParam>::few(setting.normalizer))
      for (std::int64_t iterations : {100, 2000}) {  // mabn and the released un apply r after iteration 1000
        config.normalizer_options = setting.options;
        if constexpr (std::is_same_v<TypeParam, Vit>)
          if (config.pre_norm) config.pooling = "mean", config.fc_norm = iterations == 100;
        SCOPED_TRACE(describe(config));
        TypeParam model(config, 1, DType::f64);
        randomize(model, 1000, 0.15);
        const NamedTensors inputs = images_of(config);
        const auto training_pass = [&](Tape& tape) {
          return model.forward(inputs, {.tape = tape, .dtype = DType::f64, .training = true}).value();
        };
        NamedTensors constants;
        if constexpr (std::is_same_v<TypeParam, T2t>) {
          Tape tape;
          const Var patches = unfold(tape.constant(inputs.at("images")), 4, 4, {.stride = 2, .padding = 1});
          const Var x = setting.normalizer == "pn" ? group_rms(patches, /*groups=*/2) : patches;
          constants["tokens_to_token.attention1.norm1"] = x.value();
        }
        freeze(
            model, iterations, [&](Tape& tape) { (void)training_pass(tape); }, constants);
        const FoldedModel folded = fold(model, {.rescale_stream = true});
        const Tensor inference = inference_logits(model, inputs, DType::f64),
                     folded_logits = inference_logits(*folded.model, inputs, DType::f64);
        Tape tape(/*recording=*/false);
        const Tensor want = training_pass(tape);
        EXPECT_LE(difference(inference, want).relative, 1e-12);
        EXPECT_LE(difference(folded_logits, want).relative, 1e-12);
      }
}

TEST(FoldCct, EachSiteGoesIntoTheLayersThatReadItAndTheStemsIntoTheirConvolutions) {
  const FoldedModel folded = fold(*random_model<Cct>(tiny_cct("un", "hybrid")));
  for (const auto& [site, into] : std::vector<std::pair<std::string, Weights>>{
           {"tokenizer.conv_layers.0.norm", {"tokenizer.conv_layers.0.0.weight"}},
           {"tokenizer.conv_layers.1.norm", {"tokenizer.conv_layers.1.0.weight"}},
           {"classifier.blocks.0.pre_norm", {"classifier.blocks.0.self_attn.qkv.weight"}},
           {"classifier.blocks.1.norm1", {"classifier.blocks.1.linear1.weight"}},
           {"classifier.norm", {"classifier.attention_pool.weight", "classifier.fc.weight"}}})
    EXPECT_EQ(by_site(folded).at(site).into, into) << site;
  EXPECT_TRUE(folded.model->values().count("tokenizer.conv_layers.0.0.bias"));
}

// In the published block, the result of norm1 is the residual stream.
TEST(FoldCct, OnTheStreamTheSumKeepsTheMap) {
  const auto model = random_model<Cct>(tiny_cct("un", "cct", "cct"));
  const FoldedModel kept = fold(*model), rescaled = fold(*model, {.rescale_stream = true});
  const SiteReport norm1 = by_site(kept).at("classifier.blocks.0.norm1");
  EXPECT_EQ(norm1.outcome, Outcome::partly);
  EXPECT_EQ(norm1.into, Weights{"classifier.blocks.0.linear1.weight"});
  ASSERT_EQ(norm1.kept.size(), 1u);
  EXPECT_EQ(norm1.kept[0].edge, "classifier.blocks.0.norm1 -> classifier.blocks.0.mlp: bias_dropout_residual");
  EXPECT_EQ(config_of<Cct>(kept).normalizer_at,
            (Sites{{"classifier.blocks.0.mlp.residual", "affine"}, {"classifier.blocks.1.mlp.residual", "affine"}}));
  EXPECT_TRUE(config_of<Cct>(rescaled).normalizer_at.empty());
}

void expect_no_gain_or_bias(const FoldedModel& folded, const std::string& site) {
  const NamedTensors values = folded.model->values();
  EXPECT_TRUE(close(values.at(site + ".weight"), Tensor::full({8}, 1, DType::f64), 0)) << site;
  EXPECT_TRUE(close(values.at(site + ".bias"), Tensor::zeros({8}, DType::f64), 0)) << site;
}

TEST(FoldCct, OnlineNormalizersGiveTheirGainsAndBiasesBehindTheStem) {
  const FoldedModel folded = fold(*random_model<Cct>(tiny_cct("ln", "hybrid")));
  for (const char* site : {"classifier.blocks.0.pre_norm", "classifier.blocks.1.norm1", "classifier.norm"})
    expect_no_gain_or_bias(folded, site);
  // This gain cannot be folded: ln's statistics separate it from the convolution before it, and gelu separates it from
  // the convolution after it.
  const Tensor gain = folded.model->values().at("tokenizer.conv_layers.0.norm.weight");
  EXPECT_FALSE(close(gain, Tensor::full({4}, 1, DType::f64), 1e-3));
}

}  // namespace
}  // namespace foldgrad::testing
