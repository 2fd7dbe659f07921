// Tests EfficientNet-Lite0: sizes, names, SAME padding, gradients, and folding, also with variances of 0.
#include "models/efficientnet_lite/efficientnet_lite.h"

#include "models/fold/model.h"
#include "tests/models/any_model.h"

namespace foldgrad::testing {
namespace {

EfficientNetLiteConfig small(std::int64_t image_size, const std::string& normalizer = "bn") {
  EfficientNetLiteConfig config;
  config.image_size = image_size, config.classes = 3;
  if (normalizer != "bn") config.normalizer = normalizer, config.normalizer_options = {};
  return config;
}

TEST(EfficientNetLite, HasThePublishedParametersAndSites) {
  EfficientNetLiteConfig config = small(224);
  config.classes = 1000;
  EfficientNetLite model(config, std::nullopt);
  EXPECT_EQ(model.parameter_count(), 4652008);
  std::int64_t channels = 0;
  for (const Normalizer* norm : model.normalizers()) channels += norm->channels();
  EXPECT_EQ(model.normalizers().size(), 49u);
  EXPECT_EQ(channels, 21008);
  const NamedTensors all = model.values();
  for (const auto& [name, shape] : Parameters{{"conv_stem.weight", {32, 3, 3, 3}},
                                              {"blocks.0.depthwise_conv.weight", {32, 1, 3, 3}},
                                              {"blocks.3.depthwise_conv.weight", {144, 1, 5, 5}},
                                              {"blocks.15.project_conv.weight", {320, 1152, 1, 1}},
                                              {"bn1.bias", {1280}},
                                              {"fc.weight", {1000, 1280}}})
    EXPECT_EQ(all.at(name).shape(), shape) << name;
  EXPECT_FALSE(all.count("blocks.0.expand_conv.weight"));
}

// There are no normalizers, and only the first channel is not 0. The stem's kernel begins at the border of the image:
// its weights at (0, 0) and (1, 1) read two of the four pixels, and its weight at (2, 2) reads padding. All later maps
// have one pixel, which is at the centre of each kernel. The nine blocks that add their input double the value; the
// other blocks keep it.
TEST(EfficientNetLite, EFF_1_EFF_2_EFF_3_WorkedByHand) {
  EfficientNetLiteConfig config = small(2, "none");
  EfficientNetLite model(config, std::nullopt, DType::f64);
  const NamedTensors values = model.values();
  for (auto [name, value] : values)  // the weight at the centre, from input channel 0 to output channel 0
    if (const Shape& s = value.shape(); s.rank() == 4) value.data<double>()[s[2] * s[3] / 2] = 1;
  double* const stem = values.at("conv_stem.weight").data<double>();
  stem[0] = 1, stem[4] = 2, stem[8] = 99;
  values.at("conv_head.weight").data<double>()[0] = 3;
  values.at("fc.weight").data<double>()[1280] = 10;
  values.at("fc.bias").data<double>()[1] = 1;
  const auto logits = [&](double red, double other_red) {
    const Tensor images = Tensor::zeros({1, 2, 2, 3}, DType::f64);
    images.data<double>()[0] = red, images.data<double>()[9] = other_red;
    return inference_logits(model, {{"images", images}}, DType::f64).values<double>();
  };
  EXPECT_EQ(logits(1. / 1024, 0)[1], 10 * (3 * 0.5) + 1);
  EXPECT_EQ(logits(0, 1. / 1024)[1], 10 * (3 * 1.0) + 1);
  EXPECT_EQ(logits(1. / 128, 0)[1], 10 * 6 + 1);  // relu6 limits 3 * 4 to 6
  EXPECT_EQ(logits(-1, 0)[1], 1);
  EXPECT_EQ(logits(1, 0)[0], 0);
}

// A gradient step lowers the loss as the gradient predicts. The normalizer is ln, since the last maps have one pixel
// per image, and batch statistics of so few pixels would make the loss rough.
TEST(EfficientNetLite, Trains) {
  const EfficientNetLiteConfig config = small(32, "ln");
  EfficientNetLite model(config, 1, DType::f64);
  const NamedTensors inputs = images_of(config, 2);
  const double before = backward(model, inputs, DType::f64);
  double square = 0;
  for (Parameter* p : model.parameters())
    for (double g : p->grad.values<double>()) square += g * g;
  for (Parameter* p : model.parameters())
    for (std::int64_t i = 0; i < p->value.size(); ++i)
      p->value.data<double>()[i] -= 1e-3 / square * p->grad.data<double>()[i];
  EXPECT_NEAR(loss_of(model, inputs), before - 1e-3, 1e-4);
}

// Sets one running variance of each normalizer to 0. Published weights have such variances in channels that relu6 has
// switched off. There, the denominator is sqrt(eps). Algorithm 1 of Unified Normalization, which divides by sigma
// without eps, would give NaN.
void kill_some_channels(Model& model) {
  for (Normalizer* norm : model.normalizers()) {
    const NamedTensors state = norm->state();
    const auto variance = state.find("run_var");
    if (variance != state.end()) variance->second.data<double>()[1] = 0;
  }
}

// The maps are 27, 14, 7, 4, 2 and 1 pixels wide. Rounding errors grow from layer to layer, since the 49 normalizers
// divide channels by random deviations between about 1/7 and 7.
TEST(EfficientNetLite, FoldsToTheSameLogitsAlsoWithVariancesOfZero) {
  const EfficientNetLiteConfig config = small(27);
  EfficientNetLite model(config, 1, DType::f64);
  randomize_statistics(model, 1000);
  kill_some_channels(model);
  const FoldedModel folded = fold(model);
  ASSERT_EQ(folded.reports.size(), 49u);
  for (const SiteReport& report : folded.reports) EXPECT_EQ(report.outcome, SiteReport::Outcome::folded) << report.site;
  EXPECT_TRUE(folded.model->state().empty());
  const NamedTensors inputs = images_of(config, 2);
  const Tensor want = inference_logits(model, inputs, DType::f64);
  EXPECT_LE(difference(inference_logits(*folded.model, inputs, DType::f64), want).relative, 1e-11);
}

TEST(EfficientNetLite, ImpossibleSizesNameTheKey) {
  EXPECT_EQ(refusal<EfficientNetLite>(small(32), [](auto& c) { c.image_size = 0; }),
            "efficientnet_lite: image_size must be at least 1, got 0");
  EXPECT_EQ(refusal<EfficientNetLite>(small(32), [](auto& c) { c.normalizer = "deepnorm"; }),
            "efficientnet_lite: normalizer must not require post-norm, got deepnorm");
}

}  // namespace
}  // namespace foldgrad::testing
