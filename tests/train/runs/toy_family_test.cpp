// Tests that a new family of models only needs to be registered to work in runs, files, folding and checks. The test's
// family is as small as possible: a linear layer, a normalizer and another linear layer classify points of three
// clusters.
#include <cmath>

#include "models/blocks/layers.h"
#include "models/blocks/random_fill.h"
#include "models/fold/model.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "tests/train/runs/folded_run.h"
#include "tests/train/runs/settings_run.h"
#include "train/reports/report.h"
#include "train/tasks/families.h"

namespace foldgrad::testing {
namespace {

NamedTensors toy_points(std::int64_t count, std::uint64_t seed, DType dtype = DType::f32) {
  const Tensor x = randn({count, 2}, unsigned(seed), 0.3), target = Tensor::zeros({count}, DType::i64);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t k = target.data<std::int64_t>()[i] = i % 3;
    x.data<double>()[2 * i] += std::cos(2.1 * double(k)), x.data<double>()[2 * i + 1] += std::sin(2.1 * double(k));
  }
  return {{"x", x.to(dtype)}, {"target", target}};
}

struct ToyConfig : BlockConfig {
  ToyConfig() { width = 16; }
  void validate() const { BlockConfig::validate("toy"); }
  bool operator==(const ToyConfig&) const = default;
};
void visit_keys(KeysOf<ToyConfig> auto& config, const auto& visitor) {
  keys_in("model", visitor, required)(config.width, "width", "channels", "Width of the hidden layer", at_least(1));
  visit_normalizer_key(config, visitor);
}
ToyConfig smallest(const ToyConfig& config) { return config; }
ExpectedParameters expected_parameters(const ToyConfig& config) { return {{"in.weight", {config.width, 2}}}; }

class ToyModel final : public Model {
 public:
  ToyModel(const ToyConfig& config, std::optional<std::uint64_t> seed, DType dtype, Device = Device::cpu)
      : Model(dtype, Device::cpu), config_(config), make_{config_, dtype, Device::cpu, 1, 1} {
    for (LinearLayer* layer : {&in_, &out_})
      if (seed) fill_normal(layer->weight, 0.5, *seed);
  }
  const ToyConfig& config() const { return config_; }
  const char* family() const override { return "toy"; }
  Var forward(const NamedTensors& inputs, const ForwardPass& pass) override {
    const Var h = in_(pass.tape.constant(inputs.at("x").to(pass.dtype)), pass);
    return out_(norm_->apply(h, pass.norm(Segments::equal(h.shape()[0], 1))), pass);
  }
  Var loss_of(const Var& z, const NamedTensors& inputs, double smoothing) override {
    return cross_entropy(z, z.tape().constant(inputs.at("target")),
                         {.label_smoothing = smoothing, .reduction = Reduction::sum});
  }
  NamedTensors smallest_inputs() const override { return toy_points(1, 1, dtype()); }
  NamedTensors random_inputs(std::uint64_t seed) const override { return toy_points(8, seed, dtype()); }
  std::unique_ptr<Model> alike(DType dtype, Device, const FoldedGraph* folded) const override {
    ToyConfig config = config_;
    if (folded) set_normalizers_left(config, *this, *folded);
    return std::make_unique<ToyModel>(config, std::nullopt, dtype);
  }
  std::vector<std::string> write_onnx(const std::string&) override { return {}; }

 private:
  void list(ModelParts& parts) override {
    in_.list(parts);
    out_.list(parts);
    parts.add(norm_);
    parts.output = {&out_.weight, &out_.bias};
  }

  ToyConfig config_;
  BlockMaker make_;
  LinearLayer in_{"in", 2, config_.width, dtype(), device()}, out_{"out", config_.width, 3, dtype(), device()};
  std::unique_ptr<Normalizer> norm_ = make_.normalizer("norm");
};

struct ToyKeys {
  bool operator==(const ToyKeys&) const = default;
};
void visit_keys(KeysOf<ToyKeys> auto&, const auto&) {}

class ToyTask final : public Task {
 public:
  static inline std::int64_t stops_at = -1;  // next() throws after this number of batches

  explicit ToyTask(std::unique_ptr<Model> model)
      : Task(*model, {.deciding_score = "distance", .smaller_is_better = true, .unit_of_work = "points"}),
        model_(std::move(model)) {}
  Examples next() override {
    DataCursor at = batches_.cursor();
    if (at.batch == stops_at) throw std::runtime_error("no more points");
    ++at.batch;
    batches_.seek(at);
    return {toy_points(12, std::uint64_t(at.batch)), 12, 12};
  }
  BatchSequence& batches() override { return batches_; }
  Validation validate(Communicator*) override {
    const NamedTensors unseen = toy_points(60, 999);
    Tape tape(/*recording=*/false);
    const double loss = model_->loss(unseen, {.tape = tape, .dtype = DType::f32}, 0).value().item() / 60;
    return {.loss = loss,
            .deciding = -loss,
            .scores = {{"loss", loss}, {"distance", loss}},
            .text = fmt::format("loss {:.4f}", loss),
            .short_text = fmt::format("loss {:.4f}", loss),
            .samples = "a point\n"};
  }

 private:
  std::unique_ptr<Model> model_;
  BatchSequence batches_{0};
};

const TaskKind kToyTask{
    .keys = [] { return Section::of(ToyKeys()); },
    .make = [](ExperimentConfig config, const std::string&, const std::string&,
               Device device) -> std::unique_ptr<Task> { return std::make_unique<ToyTask>(new_model(config, device)); },
    .checks = [](Model&, Model&, const NamedTensors&) { return std::vector<CheckResult>(); },
    .read_inputs = [](const Model&, const std::string&) { return NamedTensors(); },
    .results = [](Model&, const NamedTensors&, const ForwardPass&) { return NamedTensors(); }};

Family toy_family() { return make_family<ToyModel>("toy", kToyTask); }

class ToyFamily : public SettingsRun {
 protected:
  static void SetUpTestSuite() { register_family(toy_family()); }
  ToyFamily() : SettingsRun("[norm]\nname = 'un'\n[norm.un]\nwarmup = 10\nwindow = 2\n[train]\nwarmup = 2\n") {}
  int train(const std::string& out, const std::string& settings = "") {
    return SettingsRun::train(out,
                              "model.family=toy;train.steps=40;validate.every=10;output.save_every=5;output.keep=20;"
                              "train.lr=0.05;train.label_smoothing=0;output.log_every=2;" +
                                  settings);
  }
};

TEST_F(ToyFamily, IsTrainedReportedLoadedFoldedAndVerified) {
  ASSERT_EQ(train("run"), 0);
  const auto validations = events("run", "validate");
  ASSERT_EQ(validations.size(), 4u);
  EXPECT_LT(validations[3].at("loss"), 0.5 * validations[0].at("loss").get<double>());
  EXPECT_GT(events("run", "train").back().at("points_per_second"), 0);
  EXPECT_EQ(bytes("run/samples/step-00000040.txt"), "a point\n");
  const RunSummary summary = summary_of(read_run_log(files_ / "run"));
  ASSERT_TRUE(summary.best.has_value());
  EXPECT_EQ(summary.best->step, 40);
  EXPECT_EQ(summary.best->at("distance"), validations[3].at("distance"));
  EXPECT_TRUE(contains(comparison_table({summary}), "distance"));
  EXPECT_TRUE(contains(report_html({read_run_log(files_ / "run")}), "distance"));
  expect_folds(files_ / "run");
  EXPECT_EQ(dynamic_cast<ToyModel&>(*load_model(files_ / "run-folded")).config().normalizer, "none");
}

TEST_F(ToyFamily, HasNoBestCheckpointBeforeItIsValidated) {
  ToyTask::stops_at = 3;
  EXPECT_EQ(message_of([&] { train("run", "output.save_every=1"); }), "no more points");
  ToyTask::stops_at = -1;
  EXPECT_TRUE(exists("run/checkpoints/LATEST"));
  EXPECT_FALSE(exists("run/checkpoints/BEST"));
}

TEST_F(ToyFamily, FamiliesHaveNamesOfTheirOwn) {
  EXPECT_EQ(message_of([] { register_family(toy_family()); }), "register_family: \"toy\" is already registered");
  EXPECT_EQ(message_of([] { family("tyo"); }),
            "there is no model.family \"tyo\"; did you mean \"toy\"? There are: transformer, vit, cct, t2t, "
            "swin, convnext, efficientnet_lite, nfnet, gpt, toy");
}

}  // namespace
}  // namespace foldgrad::testing
