// Tests that user-registered normalizers are trained, verified, folded and exported like the library's own.
#include <filesystem>

#include "models/fold/model.h"
#include "models/normalizers/kinds.h"
#include "models/onnx/graph.h"
#include "ops/activation/activation.h"
#include "ops/affine/affine.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/linear/linear.h"
#include "ops/rms_norm/rms_norm.h"
#include "tests/models/transformer/tiny_translation.h"
#include "tests/train/runs/folded_run.h"
#include "tests/train/runs/settings_run.h"
#include "train/commands/load_model_as.h"

namespace foldgrad::testing {
namespace {

// y = (1 + tanh(slope)) x + bias, so gains are between 0 and 2. The first recorded operation takes a parameter, not x.
class BoundedGain : public Normalizer {
 public:
  explicit BoundedGain(const NormalizerSite& s)
      : Normalizer(s), slope_(s.parameter("slope", s.options.number("slope"))), bias_(s.parameter("bias", 0)) {}

  std::vector<Parameter*> parameters() override { return {&slope_, &bias_}; }
  std::optional<InferenceForm> inference() const override {
    AffineMap map = AffineMap::of(slope_.value, bias_.value);
    for (double& a : map.A) a = 1 + std::tanh(a);
    return InferenceForm{.map = map};
  }

 protected:
  Var forward(const Var& x, const NormContext&) override {
    const Var one = x.tape().constant(Tensor::full({channels()}, 1, x.dtype(), x.value().device()));
    return foldgrad::affine(x, add(tanh(on_tape(slope_, x)), one), on_tape(bias_, x));
  }

 private:
  Parameter slope_, bias_;
};

// Divides x by its root mean square, and applies BoundedGain to the quotient.
class BoundedRms final : public BoundedGain {
 public:
  using BoundedGain::BoundedGain;
  std::optional<InferenceForm> inference() const override {
    InferenceForm form = *BoundedGain::inference();
    form.instead = InferenceForm::Groups{1, /*centered=*/false, kEps};
    return form;
  }

 private:
  static constexpr double kEps = 1e-3;
  Var forward(const Var& x, const NormContext& context) override {
    const Var one = x.tape().constant(Tensor::full({channels()}, 1, x.dtype(), x.value().device()));
    return BoundedGain::forward(rms_norm(x, one, kEps), context);
  }
};

// y = sigmoid(slope) x, without an inference form.
class OpaqueGain final : public Normalizer {
 public:
  explicit OpaqueGain(const NormalizerSite& s) : Normalizer(s), slope_(s.parameter("slope", 0)) {}

  std::vector<Parameter*> parameters() override { return {&slope_}; }

 private:
  Var forward(const Var& x, const NormContext&) override {
    return foldgrad::affine(x, sigmoid(on_tape(slope_, x)),
                            x.tape().constant(Tensor::zeros({channels()}, x.dtype(), x.value().device())));
  }

  Parameter slope_;
};

class RegisteredNormalizer : public SettingsRun {
 protected:
  RegisteredNormalizer() : SettingsRun(kTinyConfig) { write_tiny_text(files_.path()); }
  static void SetUpTestSuite() {
    const NormalizerOption slope = number_option("slope", "0.25", "initial slope", within(-5, 5));
    register_normalizer({{"bounded", Inference::affine, "a gain between 0 and 2", {slope}}, make<BoundedGain>});
    register_normalizer(
        {{"bounded_rms", Inference::online, "bounded, of unit mean square", {slope}}, make<BoundedRms>});
    register_normalizer({{"opaque", Inference::online, "a gain between 0 and 1", {}}, make<OpaqueGain>});
    register_normalizer({{"silent", Inference::affine, "offline, it says, but not how", {}}, make<OpaqueGain>});
    register_normalizer({{"boastful", Inference::online, "offline, unlike what it says", {slope}}, make<BoundedGain>});
  }
};

TEST_F(RegisteredNormalizer, IsTrainedByItsNameInAConfigurationAndFolds) {
  ASSERT_EQ(train("run", "norm.name=bounded;norm.bounded.slope=0.5"), 0);
  const std::string run = files_ / "run";
  const auto model = load_transformer(run);
  EXPECT_EQ(model->config().normalizer, "bounded");
  EXPECT_EQ(model->config().normalizer_options.at("slope"), "0.5");
  for (Normalizer* norm : model->normalizers()) {
    const std::vector<float> slopes = norm->parameters()[0]->value.values<float>();
    for (float slope : slopes) EXPECT_NEAR(slope, 0.5, 0.1);  // each of 5 updates changes a slope by at most about 0.01
    EXPECT_NE(slopes, std::vector<float>(slopes.size(), 0.5f)) << norm->site();
  }
  expect_folds(run, {.tied = FoldOptions::Tied::untie});
  const auto folded = load_transformer(run + "-folded");
  EXPECT_EQ(folded->config().normalizer, "none");
  EXPECT_TRUE(folded->config().normalizer_at.empty());
}

// Decoding without a tape, token by token, must give the same logits as one forward pass, before and after folding.
TEST_F(RegisteredNormalizer, IsDecodedByItsForm) {
  for (const char* name : {"bounded", "bounded_rms"}) {
    Transformer model(tiny_config(name), 3);
    randomize(model, 5, 0.15);
    const TranslationBatch batch = translation_batch();
    const Tensor want = inference_logits(model, batch.named(), DType::f32);
    const auto expect_the_same = [&](Transformer& m) {
      EXPECT_LE(difference(logits_by_steps(InferenceTransformer(m, DType::f32), batch), want).relative, 1e-5) << name;
    };
    expect_the_same(model);
    expect_the_same(transformer_of(fold(model, {.tied = FoldOptions::Tied::untie})));
  }
}

// The gain is not a separate parameter, so it stays in the normalizer; only the bias is folded.
TEST_F(RegisteredNormalizer, OfOneThatStaysTheBiasFolds) {
  Transformer model(tiny_config("bounded_rms"), 3);
  randomize(model, 5, 0.15);
  const FoldedModel folded = fold(model, {.tied = FoldOptions::Tied::untie});
  const TranslationBatch batch = translation_batch();
  EXPECT_LE(difference(inference_logits(*folded.model, batch.named(), DType::f64),
                       inference_logits(model, batch.named(), DType::f64))
                .relative,
            1e-6);
  for (const SiteReport& site : folded.reports) EXPECT_EQ(site.outcome, SiteReport::Outcome::folded) << site.site;
  for (std::size_t i = 0; i < model.normalizers().size(); ++i) {
    const AffineMap before = model.normalizers()[i]->inference()->map,
                    after = folded.model->normalizers()[i]->inference()->map;
    EXPECT_TRUE(before.adds() && !after.adds());
    EXPECT_EQ(after.A, before.A);
  }
}

TEST_F(RegisteredNormalizer, MustBeWhatItSays) {
  EXPECT_EQ(message_of([] { make_normalizer("silent", {}, "norm", 4); }),
            "norm (silent): inference() must return an offline form, to agree with the normalizer's kind");
  EXPECT_EQ(message_of([] { make_normalizer("boastful", {}, "norm", 4); }),
            "norm (boastful): inference() must not return an offline form, to agree with the normalizer's kind");
}

TEST_F(RegisteredNormalizer, IsExportedByItsForm) {
  TransformerConfig config = tiny_config("bounded");
  for (const char* name : {"bounded", "bounded_rms"}) {
    config.normalizer = name;
    Transformer known(config, 3);
    known.write_onnx(files_ / name);
    EXPECT_TRUE(std::filesystem::exists(files_ / name + "/decoder_with_past_model.onnx"));
  }
  config.normalizer = "opaque";
  Transformer unknown(config, 3);
  EXPECT_EQ(message_of([&] { unknown.write_onnx(files_ / "other"); }),
            "onnx: encoder.layers.0.self_attn_layer_norm (opaque) cannot be expressed in ONNX: the normalizer must "
            "have an affine map at inference, or be one of the library's own");
  EXPECT_FALSE(std::filesystem::exists(files_ / "other"));
}

TEST_F(RegisteredNormalizer, StaysWhereItClaimsNothing) {
  Transformer model(tiny_config("opaque"), 3);
  const FoldedModel folded = fold(model);
  EXPECT_EQ(transformer_of(folded).config().normalizer, "opaque");
  for (const SiteReport& site : folded.reports) {
    EXPECT_EQ(site.outcome, SiteReport::Outcome::kept) << site.site;
    EXPECT_EQ(site.kept[0].reason, "folding does not support the normalizer's recorded operations: sigmoid affine");
  }
}

// fold() is told which operations the site's normalizer records. If the graph has other operations at the site, fold()
// must not fold it.
TEST_F(RegisteredNormalizer, IsNotFoldedWhereAnotherRecordingStandsAtItsSite) {
  Tape tape;
  Parameter W{"fc.weight", randn({2, 2}, 1)};
  const auto norm = make_normalizer("bounded", {}, "norm", 2, DType::f64);
  const Var y = linear(norm->apply(tape.variable(randn({3, 2}, 2)), {}), tape.parameter(W));
  NamedTensors values{{W.name, W.value}};
  for (Parameter* p : norm->parameters()) values[p->name] = p->value;
  const Graph graph = graph_of(tape, {y}, {"norm"});
  const AffineMap map{{2, 2}, {0, 0}};
  EXPECT_EQ(fold(graph, {{"norm", true, map, "tanh add affine"}}, values).reports[0].outcome,
            SiteReport::Outcome::folded);
  EXPECT_EQ(fold(graph, {{"norm", true, map, "tanh affine"}}, values).reports[0].kept[0].reason,
            "folding does not support the normalizer's recorded operations: tanh add affine");
}

TEST_F(RegisteredNormalizer, MustHaveANameOfItsOwn) {
  const auto error = [](const std::string& name, auto make) {
    return message_of([&] { register_normalizer({{name, Inference::online, "", {}}, make}); });
  };
  EXPECT_EQ(error("un", make<OpaqueGain>), "register_normalizer: \"un\" is already registered");
  EXPECT_EQ(error("", make<OpaqueGain>), "register_normalizer: the name must not be empty");
  EXPECT_EQ(error("more", nullptr), "register_normalizer: more: make must be a function");
  EXPECT_EQ(normalizer_info("un").name, "un");
}

}  // namespace
}  // namespace foldgrad::testing
