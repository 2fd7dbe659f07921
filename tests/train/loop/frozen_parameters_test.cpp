// Tests that parameters in no group of the optimizer are frozen: the model uses them, but training does not change
// them.
#include "tests/harness/compare.h"
#include "tests/train/tiny_training.h"

namespace foldgrad::testing {
namespace {

bool is_frozen(const Parameter* p) { return p->name.starts_with("encoder."); }

std::vector<Parameter*> unfrozen(Model& model) {
  std::vector<Parameter*> all = model.parameters();
  std::erase_if(all, is_frozen);
  return all;
}

TransformerConfig apart(const std::string& normalizer) {
  TransformerConfig config = small_config(normalizer);
  config.share_embeddings = "none";  // the encoder has its own embedding table
  return config;
}

// Trains everything except the encoder.
struct HalfFrozen {
  explicit HalfFrozen(const TrainerOptions& options, const std::string& normalizer = "un")
      : model(apart(normalizer), 3),
        optimizer(Sgd{}, {{.parameters = unfrozen(model), .weight_decay = 0.1}}),
        trainer(task, optimizer, schedule, options) {}

  Transformer model;
  Optimizer optimizer;
  Schedule schedule{{.shape = ScheduleShape::constant, .peak = 0.5}};
  Batches batches{copies(1, 2), {.max_tokens = 256, .seed = 3}};
  BatchTask task{model, batches};
  Trainer trainer;
};

double norm_of_gradients(const std::vector<Parameter*>& parameters) {
  double squares = 0;
  for (const Parameter* p : parameters)
    for (const float g : p->grad.values<float>()) squares += double(g) * g;
  return std::sqrt(squares);
}

TEST(FrozenParameters, StayAsTheyAreWhileAllElseMovesAsItWould) {
  HalfFrozen run({.average_decay = 0.5});
  TinyTraining whole(apart("un"), 3, {}, Sgd{}, 0.5);
  const NamedTensors before = clone(run.model.values()), statistics = clone(run.model.statistics());
  Optimizer of_all(Sgd{}, {{.parameters = whole.model.parameters(), .weight_decay = 0.1}});
  Trainer trainer(whole.task, of_all, whole.schedule, {});
  run.trainer.step();
  trainer.step();
  const NamedTensors now = run.model.values(), want = whole.model.values();
  for (const Parameter* p : run.model.parameters()) {
    EXPECT_TRUE(identical(now.at(p->name), (is_frozen(p) ? before : want).at(p->name))) << p->name;
    EXPECT_FALSE(identical(want.at(p->name), before.at(p->name))) << p->name;
    if (is_frozen(p)) {
      EXPECT_TRUE(identical(run.trainer.average()->state().at(p->name), before.at(p->name))) << p->name;
    }
  }
  // Running statistics change even in layers whose gain and bias are frozen.
  for (const auto& [name, tensor] : run.model.statistics())
    EXPECT_FALSE(identical(tensor, statistics.at(name))) << name;
}

TEST(FrozenParameters, CountInNoNorm) {
  HalfFrozen free({}, "ln"), clipped({.clip = 0.125}, "ln");
  const NamedTensors before = clone(clipped.model.values());
  for (HalfFrozen* run : {&free, &clipped}) run->trainer.step();
  const double norm = norm_of_gradients(unfrozen(free.model)), of_all = norm_of_gradients(free.model.parameters());
  EXPECT_GT(of_all, 1.01 * norm);
  for (HalfFrozen* run : {&free, &clipped})
    EXPECT_NEAR(run->trainer.report().gradient_norm, norm, 1e-6 * norm);  // rounding in f32
  ASSERT_GT(norm, 0.25);
  // A parameter becomes p - lr (clip g / |g| + wd p), with lr = 0.5, clip = 0.125 and wd = 0.1.
  double squares = 0;
  for (const auto& [name, value] : clipped.model.values())
    for (std::int64_t i = 0; i < value.size(); ++i) {
      const double p = before.at(name).data<float>()[i];
      squares += name.starts_with("encoder.") ? 0 : std::pow(value.data<float>()[i] - p + 0.05 * p, 2);
    }
  EXPECT_NEAR(std::sqrt(squares), 0.5 * 0.125, 1e-5);  // f32 rounds, and [CLIP-2] adds 1e-6 to the norm
}

TEST(FrozenParameters, AreNotClippedAdaptively) {
  HalfFrozen free({}, "ln"), clipped({.agc = 1e-4, .agc_exclude = Unclipped::none}, "ln");
  for (HalfFrozen* run : {&free, &clipped}) run->trainer.step();
  for (std::size_t i = 0; i < free.model.parameters().size(); ++i) {
    const Parameter &p = *free.model.parameters()[i], &q = *clipped.model.parameters()[i];
    if (p.name.ends_with("k_proj.bias")) continue;  // softmax cancels this bias; its gradient is rounding error
    EXPECT_EQ(identical(p.grad, q.grad), is_frozen(&p)) << p.name;
  }
}

TEST(FrozenParameters, MayBeAllThatIsClippedAdaptively) {
  TinyTraining whole(apart("ln"), 3, {});
  Optimizer optimizer(Sgd{}, {{.parameters = whole.model.output_parameters()}});
  Trainer trainer(whole.task, optimizer, whole.schedule, {.agc = 1e-4});
  trainer.step();
  const double norm = norm_of_gradients(whole.model.output_parameters());
  EXPECT_NEAR(trainer.report().gradient_norm, norm, 1e-6 * norm);  // rounding in f32
}

}  // namespace
}  // namespace foldgrad::testing
