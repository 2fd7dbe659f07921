// A captured step is right in all later steps, whatever has changed since: the batch, its weight, the step of random
// numbers, the learning rate, Adam's corrections, counters of normalizers. Replayed and eager steps are compared bit
// for bit, so that a number which a graph has frozen shows.
#include "train/loop/step_graphs.h"

#include "engine/accumulate.h"
#include "engine/cuda/no_wait.h"
#include "models/vit/vit.h"
#include "tests/train/data/images/counting_images.h"
#include "tests/train/loop/device_training.h"
#include "train/tasks/classification.h"

namespace foldgrad::testing {
namespace {

// For batches of two sentences of up to 4 tokens. Where one is shorter, the shape is the same, and the weight another.
EncodedPairs alike_sentences(std::initializer_list<std::int64_t> lengths) {
  EncodedPairs pairs;
  std::int64_t word = 0;
  for (const std::int64_t length : lengths) {
    for (std::vector<Ids>* side : {&pairs.source, &pairs.target}) {
      Ids ids;
      for (; std::ssize(ids) < length - 1; ++word) ids.push_back(kFirstWord + word * word % kWords);
      ids.push_back(kEos);
      side->push_back(ids);
    }
  }
  return pairs;
}

struct Text {
  Text(const TransformerConfig& config, const EncodedPairs& pairs, const TrainerOptions& options)
      : model(config, /*seed=*/3, DType::f32, Device::cuda),
        optimizer(Adam{}, {{.parameters = model.parameters(), .weight_decay = 0.01}}),
        schedule({.name = "inverse_sqrt", .peak = 5e-3, .warmup = 3}),
        batches(pairs, {.max_tokens = 8, .multiple = 1, .shuffle = false}),
        task(model, batches),
        trainer(task, optimizer, schedule, options) {}

  Transformer model;
  Optimizer optimizer;
  Schedule schedule;
  Batches batches;
  BatchTask task;
  Trainer trainer;
};

struct Images {
  explicit Images(const TrainerOptions& options)
      : task(vit(), {counting_images(8, 8, 8, 3), counting_images(3, 8, 8, 3), {0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 2}},
             {.batch = 4, .mix = {.mixup = 0.8, .cutmix = 1}}),
        model(task.model()),
        optimizer(AdamW{}, {{.parameters = model.parameters()}}),
        schedule({.name = "cosine", .peak = 5e-3, .warmup = 2, .total = 8}),
        trainer(task, optimizer, schedule, options) {}

  static std::unique_ptr<Model> vit() {
    VitConfig config;
    config.image_size = 8, config.layers = 2, config.width = config.ffn_width = 8, config.heads = 2, config.classes = 3;
    config.dropout = config.attention_dropout = config.activation_dropout = 0.1, config.drop_path = 0.4;
    return std::make_unique<Vit>(config, 3, DType::f32, Device::cuda);
  }

  Classification task;
  Model& model;
  Optimizer optimizer;
  Schedule schedule;
  Trainer trainer;
};

// Bytes of all that a training has, its gradients among them.
template <class Run>
std::vector<std::vector<std::uint8_t>> bits(Run& run) {
  std::vector<Tensor> all;
  for (const Parameter* p : run.model.parameters()) all.insert(all.end(), {p->value, p->grad});
  for (const NamedTensors& tensors : {run.model.state(), run.optimizer.state()})
    for (const auto& [name, tensor] : tensors) all.push_back(tensor);
  if (run.trainer.average())
    for (const auto& [name, tensor] : run.trainer.average()->state()) all.push_back(tensor);
  std::vector<std::vector<std::uint8_t>> bytes;
  for (const Tensor& t : all) {
    bytes.emplace_back(t.bytes());
    memory::copy(Device::cpu, bytes.back().data(), t.device(), t.raw(), t.bytes());
  }
  return bytes;
}

template <class Run>
void expect_step_alike(Run& replayed, Run& eager) {
  replayed.trainer.step(), eager.trainer.step();
  const TrainingReport a = replayed.trainer.report(), b = eager.trainer.report();
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.gradient_norm, b.gradient_norm);
  EXPECT_TRUE(bits(replayed) == bits(eager));
}

class StepGraphsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  }
};

class FrozenNumbers : public StepGraphsTest, public ::testing::WithParamInterface<std::tuple<std::string, DType>> {};

std::vector<std::tuple<std::string, DType>> normalizers_and_types() {
  std::vector<std::tuple<std::string, DType>> all{{"ln", DType::bf16}, {"un", DType::bf16}};
  for (const NormalizerInfo& info : normalizers()) all.emplace_back(info.name, DType::f32);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Normalizers, FrozenNumbers, ::testing::ValuesIn(normalizers_and_types()),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" + name(std::get<1>(info.param));
                         });

TEST_P(FrozenNumbers, AReplayedStepIsAnEagerOne) {
  const auto& [norm, dtype] = GetParam();
  TransformerConfig config = narrow_config(with_dropout(small_config(norm)));
  config.pre_norm = !normalizer_info(norm).post_norm_only;
  TrainerOptions options{.clip = 1, .agc = 0.01, .dtype = dtype, .average_decay = 0.5, .average_statistics = true};
  const EncodedPairs pairs = alike_sentences({4, 4, 4, 3});
  Text replayed(config, pairs, options);
  options.graphs = false;
  Text eager(config, pairs, options);
  ASSERT_EQ(eager.batches.per_epoch(), 2);
  if (norm == "prepbn") {  // which counts on the host
    EXPECT_EQ(replayed.trainer.graphs(), nullptr);
    return;
  }
  for (int n = 0; n < 2; ++n) replayed.trainer.step();  // the second is captured
  replayed.trainer.report();
  eager.trainer.restore(replayed.trainer.snapshot());
  expect_step_alike(replayed, eager);
  ASSERT_EQ(eager.trainer.graphs(), nullptr);
  ASSERT_NE(replayed.trainer.graphs(), nullptr);
  EXPECT_EQ(replayed.trainer.graphs()->refusal(), "");
  EXPECT_EQ(replayed.trainer.graphs()->captures(), 1);
  EXPECT_EQ(replayed.trainer.graphs()->replays(), 1);
}

TEST_F(StepGraphsTest, ImagesAreMixedAnewInEachStep) {
  Images replayed({.dtype = DType::f32}), eager({.graphs = false});
  for (int n = 0; n < 5; ++n) expect_step_alike(replayed, eager);
  EXPECT_EQ(replayed.trainer.graphs()->captures(), 1);
  EXPECT_EQ(replayed.trainer.graphs()->replays(), 3);
}

// Batches of two shapes take turns in one memory. A graph leaves its gradients where the parameters then have them.
TEST_F(StepGraphsTest, EachShapeHasItsGraph) {
  const TransformerConfig config = narrow_config(with_dropout(small_config("un")));
  const EncodedPairs pairs = alike_sentences({4, 4, 3, 2});
  Text replayed(config, pairs, {.clip = 1}), eager(config, pairs, {.clip = 1, .graphs = false});
  ASSERT_EQ(eager.batches.per_epoch(), 2);
  for (int n = 0; n < 8; ++n) expect_step_alike(replayed, eager);
  EXPECT_EQ(replayed.trainer.graphs()->captures(), 2);
  EXPECT_EQ(replayed.trainer.graphs()->replays(), 4);
}

TEST_F(StepGraphsTest, ReplaysWaitForNothingAndTakeNoMemory) {
  Text run(narrow_config(small_config("un")), alike_sentences({4, 4}), {.clip = 1});
  for (int n = 0; n < 3; ++n) run.trainer.step();
  run.trainer.report();
  const NoHostWait scope;
  EXPECT_NO_THROW(run.trainer.step());
  EXPECT_EQ(run.trainer.graphs()->replays(), 2);
}

TEST_F(StepGraphsTest, AFailureIsFoundAsWithoutGraphs) {
  const auto failure = [](bool graphs) {
    Text run(narrow_config(small_config("ln")), alike_sentences({4, 4}), {.graphs = graphs});
    for (int n = 0; n < 3; ++n) run.trainer.step();
    run.trainer.report();
    Tensor value = run.model.parameters()[5]->value;
    const Tensor spoiled = Tensor::full(value.shape(), INFINITY, DType::f32);
    run.trainer.step();
    value.copy_from(spoiled);
    try {
      TrainingState state = run.trainer.snapshot();
      run.trainer.restore(state);
      run.trainer.step(), run.trainer.step();
      run.trainer.report();
    } catch (const Diverged& e) {
      return std::string(e.what());
    }
    return std::string("all is well");
  };
  const std::string found = failure(true);
  EXPECT_EQ(found, failure(false));
  EXPECT_NE(found.find("at step 5"), std::string::npos) << found;
}

TEST_F(StepGraphsTest, WhereThereAreNone) {
  const EncodedPairs pairs = alike_sentences({4, 4});
  const TransformerConfig config = narrow_config(small_config("ln"));
  EXPECT_NE(Text(config, pairs, {}).trainer.graphs(), nullptr);
  EXPECT_EQ(Text(config, pairs, {.graphs = false}).trainer.graphs(), nullptr);
  EXPECT_EQ(Text(config, pairs, {.accumulate = 2}).trainer.graphs(), nullptr);
  EXPECT_EQ(TinyTraining(small_config("ln"), 1, {}).trainer.graphs(), nullptr) << "on the CPU";
}

// y = x + x, in a shape of its own for each number of elements.
struct Doubling {
  Parameter none{"none", Tensor::zeros({1}, DType::f32, Device::cuda)};
  StepGraphs graphs{{&none}};
  int calls = 0;  // of the body

  std::vector<float> of(std::int64_t n, float x, bool reads = false) {
    const auto results = graphs.run({{"x", Tensor::full({n}, x, DType::f32)}}, [&](const NamedTensors& inputs) {
      ++calls;
      const Tensor on_device = inputs.at("x").to(Device::cuda);
      if (reads) on_device.values<float>();
      const Tensor y = on_device.clone();
      accumulate(y, on_device);
      return std::vector{y};
    });
    return results.at(0).values<float>();
  }
};

TEST_F(StepGraphsTest, AStepThatReadsTheDeviceStaysEager) {
  Doubling run;
  for (const float x : {1, 2, 3}) EXPECT_EQ(run.of(2, x, true), std::vector<float>(2, 2 * x));
  EXPECT_EQ(run.graphs.captures(), 0);
  EXPECT_EQ(run.calls, 3 + 1) << "it was tried once";
  EXPECT_EQ(run.graphs.refusal(), "capture: a copy to the host cannot be captured");
  for (const float x : {1, 2, 3}) EXPECT_EQ(run.of(3, x), std::vector<float>(3, 2 * x));
  EXPECT_EQ(run.graphs.captures(), 1);
}

// A task whose loss cannot be captured.
class ReadingTask final : public Task {
 public:
  explicit ReadingTask(Task& task) : task_(task) {}
  Model& model() override { return task_.model(); }
  Examples next() override { return task_.next(); }
  DataCursor cursor() const override { return task_.cursor(); }
  void seek(DataCursor cursor) override { task_.seek(cursor); }
  Var loss(const Examples& examples, const ForwardPass& pass) override {
    const Var loss = task_.loss(examples, pass);
    loss.value().item();
    return loss;
  }
  Validation validate(Model& model) override { return task_.validate(model); }
  std::string deciding_score() const override { return ""; }
  std::string unit_of_work() const override { return "tokens"; }
  void write_companions(const std::string&) const override {}

 private:
  Task& task_;
};

TEST_F(StepGraphsTest, TheReportSaysOnceWhyStepsStayEager) {
  DeviceTraining run(narrow_config(small_config("ln")), {});
  ReadingTask reads(run.task);
  Trainer trainer(reads, run.optimizer, run.schedule, {});
  trainer.step();
  EXPECT_EQ(trainer.report().refused_capture, "") << "nothing has been tried";
  trainer.step();
  EXPECT_TRUE(trainer.report().refused_capture.ends_with("a copy to the host cannot be captured"));
  trainer.step();
  EXPECT_EQ(trainer.report().refused_capture, "");
}

TEST_F(StepGraphsTest, GraphsAreBoundedAndTheIdleOnesGiveWay) {
  Doubling run;
  for (int round = 0; round < 3; ++round)
    for (int n = 1; n <= kMostStepGraphs + 1; ++n) EXPECT_EQ(run.of(n, float(round)), std::vector<float>(n, 2 * round));
  EXPECT_EQ(run.graphs.captures(), kMostStepGraphs);
  EXPECT_EQ(run.graphs.replays(), kMostStepGraphs);
  for (std::int64_t i = 0; i < kIdleSteps; ++i) run.of(2, 1);
  EXPECT_EQ(run.of(kMostStepGraphs + 1, 1), std::vector<float>(kMostStepGraphs + 1, 2));
  EXPECT_EQ(run.graphs.captures(), kMostStepGraphs + 1);
}

}  // namespace
}  // namespace foldgrad::testing
