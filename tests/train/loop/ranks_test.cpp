// Tests that training on several ranks has the same bits for any number of processes, and nearly the same numbers as
// training on a single rank.
#include <gtest/gtest.h>

#include <array>

#include "engine/cpu/threads.h"
#include "tests/engine/parallel/wired_processes.h"
#include "tests/train/tiny_training.h"

namespace foldgrad::testing {
namespace {

constexpr int kRanks = 4;

struct Setting {
  std::string normalizer;
  DType dtype = DType::f32;
  TrainerOptions options = {};
  Optimizer::Rule rule = Adam{};
  EncodedPairs pairs = copies(1, 2);
};

// Returns options with both kinds of clipping, several batches per update, and averages of weights.
TrainerOptions full(DType dtype) {
  return {.clip = 1, .agc = 0.1, .accumulate = 2, .seed = 5, .dtype = dtype, .average_decay = 0.9};
}

using Values = std::vector<std::vector<double>>;

Values values_of(TinyTraining& run) {
  Values all;
  const auto add = [&](const Tensor& t) { all.push_back(t.to(DType::f64).values<double>()); };
  for (const Parameter* p : run.model.parameters()) add(p->value);
  for (const auto& [name, tensor] : run.model.state()) add(tensor);
  for (const auto& [name, tensor] : run.optimizer.state()) add(tensor);
  for (const auto& [name, tensor] : run.trainer.average()->state()) add(tensor);
  const TrainingReport report = run.trainer.report();
  all.push_back({report.loss, report.gradient_norm, double(report.weight), double(report.work)});
  return all;
}

std::int64_t skips(Transformer& model) {
  std::int64_t all = 0;
  for (const Normalizer* norm : model.normalizers()) all += norm->diagnostics().skips;
  return all;
}

// Returns the values after six steps. Weights are f64 if activations are f64, otherwise f32.
Values trained(const Setting& s, Communicator* communicator, Device device = Device::cpu) {
  TransformerConfig config = with_dropout(small_config(s.normalizer));
  if (s.normalizer == "un") {
    config.normalizer_options["filtration"] = "1";
    config.normalizer_options["granularity"] = "channel";
  }
  TinyTraining run(config, 3, s.options, s.rule, 5e-3, s.dtype == DType::f64 ? DType::f64 : DType::f32, s.pairs, device,
                   communicator);
  run.steps(6);
  if (s.normalizer == "un") {
    EXPECT_GT(skips(run.model), 0);  // otherwise the test covers no outliers
  }
  return values_of(run);
}

// The layers are so large that their products, sums and updates are split among threads.
TEST(TrainingStep, SameBitsForAnyNumberOfThreads) {
  const int before = threads();
  TransformerConfig config = with_dropout(small_config("un"));
  config.width = 128, config.ffn_width = 1024;
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    const auto values = [&](int n) {
      set_threads(n);
      TinyTraining run(config, 3, full(dtype), Adam{}, 5e-3, dtype == DType::f64 ? DType::f64 : DType::f32);
      run.steps(2);
      return values_of(run);
    };
    const Values want = values(1);
    for (const int n : {2, 3, 7}) EXPECT_EQ(values(n), want) << name(dtype) << ", " << n << " threads";
  }
  set_threads(before);
}

std::array<Values, kRanks> on_ranks(const Setting& s, int processes) {
  std::array<Values, kRanks> all;
  run_ranks(kRanks, processes, [&](Communicator& c) { all[std::size_t(c.rank())] = trained(s, &c); });
  return all;
}

const std::vector<std::string> kNormalizers{"ln", "bn", "un", "rmsnorm", "rbn", "pn", "mabn", "repbn"};

TEST(Ranks, SameBitsInOneTwoAndFourProcesses) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::string& norm : kNormalizers) {
      const Setting setting{norm, dtype, full(dtype)};
      const Values first = on_ranks(setting, 1)[0];
      for (const int processes : {1, 2, 4})
        for (const Values& values : on_ranks(setting, processes))
          ASSERT_EQ(values, first) << norm << " in " << name(dtype) << ", " << processes << " processes";
    }
}

// Returns the values of rank 1 of two ranks, each with a GPU.
Values on_gpus(const Setting& s, bool linked, std::size_t& linked_bytes) {
  Wire wire(true);
  Values values;
  run_teams(
      wire, 2, 2,
      [&](int p) { return linked ? OpenDeviceLink([&, p] { return std::make_unique<WiredLink>(wire, p); }) : nullptr; },
      [&](const Team&, Communicator& c) {
        Values own = trained(s, &c, Device::cuda);
        if (c.rank() == 1) values = own;
      });
  linked_bytes = wire.linked_bytes(1);
  return values;
}

TEST(Ranks, SameBitsFromGpuToGpuAndThroughTheHost) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  EncodedPairs few = copies(500, 20);
  few.source.resize(4), few.target.resize(4);
  const Setting setting{"bn", DType::f32, {.clip = 1, .seed = 5, .average_decay = 0.9}, Adam{}, few};
  std::size_t none = 0, some = 0;
  EXPECT_EQ(on_gpus(setting, true, some), on_gpus(setting, false, none));
  EXPECT_EQ(none, 0u);
  EXPECT_GT(some, 10000u);
}

// Uses SGD instead of Adam. Summing in another order changes f64 results by about 1e-16. Adam divides small gradients
// by their size, so it would turn these rounding errors into visible differences between weights.
constexpr Sgd kPlainDescent{.momentum = 0.9};

// Checks that values agree to 1e-12. Returns the largest difference.
double expect_near(const Values& one, const Values& four, const std::string& what) {
  double largest = 0;
  EXPECT_EQ(one.size(), four.size());
  for (std::size_t i = 0; i < one.size(); ++i)
    for (std::size_t j = 0; j < one[i].size(); ++j) {
      const double difference = std::abs(one[i][j] - four[i][j]);
      EXPECT_LE(difference, 1e-12 * std::max(1.0, std::abs(one[i][j]))) << what << ", tensor " << i;
      largest = std::max(largest, difference);
    }
  return largest;
}

TEST(Ranks, FourAreNearlyOneInF64) {
  for (const std::string& norm : kNormalizers) {
    const Setting setting{norm, DType::f64, full(DType::f64), kPlainDescent};
    const Values one = trained(setting, nullptr), four = on_ranks(setting, 1)[0];
    const double largest = expect_near(one, four, norm);
    EXPECT_GT(largest, 0) << norm;  // otherwise the ranks have not divided the batches
  }
}

TEST(Ranks, SomeMayHaveNoExample) {
  EncodedPairs three = copies(500, 20);
  three.source.resize(3), three.target.resize(3);
  for (const std::string& norm : kNormalizers) {
    const Setting setting{norm, DType::f64, full(DType::f64), kPlainDescent, three};
    expect_near(trained(setting, nullptr), on_ranks(setting, 1)[0], norm);
  }
}

// Returns a Transformer's gradients, summed over ranks with different sentences. The model uses its embedding table at
// the beginning and at the end of the forward pass, so the table's gradient is complete only at the end of the backward
// pass.
std::vector<std::vector<double>> summed_gradients(Communicator& c, bool watched, std::size_t bucket_bytes) {
  TransformerConfig config = small_config("ln");
  Transformer model(config, 3, DType::f64);
  Batches batches(copies(1 + c.rank(), 2), {.max_tokens = 64});
  std::vector<Parameter*> parameters = model.parameters();
  parameters.erase(parameters.begin() + 3);  // this parameter is frozen
  GradientSum sum(c, parameters, bucket_bytes);
  std::vector<std::vector<double>> all;
  for (int step = 0; step < 2; ++step) {
    Tape tape;
    const Var loss = model.loss(batches.next().sentences, {.tape = tape, .dtype = DType::f64, .training = true}, 0);
    for (Parameter* p : model.parameters()) p->zero_grad();
    if (watched) sum.watch(tape);
    tape.backward(loss);
    std::vector<Tensor> losses{loss.value()};
    sum.finish(losses);
    for (const Parameter* p : model.parameters()) all.push_back(p->grad.values<double>());
    all.push_back({losses[0].item()});
  }
  return all;
}

TEST(Ranks, SumsDuringTheBackwardPassHaveTheBitsOfSumsAfterIt) {
  for (const std::size_t bucket_bytes : {1, 5000, 1 << 20}) {
    std::map<std::pair<int, bool>, std::vector<std::vector<double>>> of_rank;
    std::mutex mutex;
    for (const bool watched : {false, true})
      run_ranks(2, 2, [&](Communicator& c) {
        const auto all = summed_gradients(c, watched, bucket_bytes);
        const std::lock_guard lock(mutex);
        of_rank[{c.rank(), watched}] = all;
      });
    EXPECT_EQ((of_rank[{0, true}]), (of_rank[{0, false}])) << bucket_bytes;
    EXPECT_EQ((of_rank[{1, true}]), (of_rank[{1, false}])) << bucket_bytes;
    EXPECT_NE((of_rank[{0, true}]), (of_rank[{1, true}])) << bucket_bytes;  // frozen: not summed
  }
}

}  // namespace
}  // namespace foldgrad::testing
