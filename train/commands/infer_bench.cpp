#include "train/commands/infer_bench.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "engine/memory.h"
#include "models/fold/model.h"
#include "models/transformer/beam_search.h"
#include "train/checkpoints/model_directory.h"

namespace foldgrad {
namespace {

struct Variant {
  std::string name;
  std::unique_ptr<Model> model;
  std::unique_ptr<InferenceTransformer> inference;
  std::size_t bytes;  // of both
};

std::size_t bytes_in_use(Device device) { return memory::statistics(device).current; }

// Whether folding removes anything.
bool folds_away(Model& model) {
  const std::vector<Normalizer*> norms = model.normalizers();
  return std::ranges::any_of(norms,
                             [](Normalizer* norm) { return norm->info().offline() && !norm->parameters().empty(); });
}

std::vector<Variant> variants(const InferBenchOptions& o, const std::string& dtype) {
  std::vector<Variant> all;
  const auto add = [&](const std::string& name, const std::function<std::unique_ptr<Model>()>& make) {
    const std::size_t before = bytes_in_use(o.device);
    std::unique_ptr<Model> model = make();
    auto inference =
        InferenceTransformer::make(as_transformer(*model, "bench"), dtype == "bf16" ? DType::bf16 : DType::f32);
    all.push_back({name, std::move(model), std::move(inference), bytes_in_use(o.device) - before});
  };
  TransformerConfig config = o.config;
  for (const std::string& normalizer : o.normalizers) {
    config.normalizer = normalizer;
    add(normalizer, [&] { return std::make_unique<Transformer>(config, /*seed=*/1, DType::f32, o.device); });
    Model& model = *all.back().model;
    if (!folds_away(model)) continue;
    add(normalizer + "_folded", [&] { return fold(model, {.tied = FoldOptions::Tied::untie}).model; });
  }
  return all;
}

// What was launched before counts as done.
double now(bool cpu_time) {
  cuda_synchronize();
  timespec t;
  clock_gettime(cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

struct Measurement {
  const char* name;
  double tokens;  // of each measurement
  // Runs once and returns the seconds of its measurements.
  std::function<std::vector<double>(const InferenceTransformer&)> run;
};

std::vector<Measurement> tasks(const InferBenchOptions& o, std::int64_t batch, std::int64_t length) {
  std::vector<std::int64_t> ids, parents;
  for (std::int64_t i = 0; i < batch * length; ++i) ids.push_back(4 + i * 7919 % (o.config.source_vocabulary - 4));
  for (std::int64_t b = 0; b < batch; ++b) parents.push_back(b);
  const Tensor source = Tensor::of({batch, length}, ids), mask = Tensor::full(source.shape(), 1, DType::u8);
  const auto once = [cpu = o.cpu_time](const auto& body) {
    return [=](const InferenceTransformer& model) {
      const double start = now(cpu);
      body(model);
      return std::vector<double>{now(cpu) - start};
    };
  };
  const auto decode = [=, last = length - 1](std::int64_t beam) {
    return once([=](const InferenceTransformer& model) {
      beam_search(model, source, mask, {.beam = beam, .max_length_a = 0, .max_length_b = last, .min_length = last});
    });
  };
  const auto step = [=, cpu = o.cpu_time](const InferenceTransformer& model) {
    const auto decoder = model.decoder(source, mask);
    std::vector<double> seconds;
    for (std::int64_t t = 0; t < length; ++t) {
      const double start = now(cpu);
      decoder->step(std::vector<std::int64_t>(std::size_t(batch), 4 + t), parents);
      seconds.push_back(now(cpu) - start);
    }
    return seconds;
  };
  const auto all = double(batch * length);
  return {{"encoder", all, once([=](const InferenceTransformer& model) { model.encode(source, mask); })},
          {"token", double(batch), step},
          {"greedy", all, decode(1)},
          {"beam", all, decode(o.beam)}};
}

// The smallest value that a share p of all do not exceed.
double quantile(std::vector<double> values, double p) {
  std::ranges::sort(values);
  return values[std::size_t(std::max(std::ceil(p * double(values.size())), 1.0)) - 1];
}

void check(const InferBenchOptions& o) {
  for (const std::string& dtype : o.dtypes)
    FOLDGRAD_CHECK(dtype == "f32" || dtype == "bf16", "bench: dtype must be f32 or bf16, got {}", dtype);
  FOLDGRAD_CHECK(!o.cpu_time || o.device == Device::cpu, "bench: --cpu-time is of the CPU, and the device is {}",
                 name(o.device));
  const std::int64_t most = o.config.max_positions, longest = *std::ranges::max_element(o.lengths);
  FOLDGRAD_CHECK(longest <= most, "bench: lengths must be at most max_positions = {}, got {}", most, longest);
}

// [variant] of one task.
std::vector<InferCost> costs_of(const Measurement& task, const std::vector<Variant>& all, const InferBenchOptions& o) {
  std::vector<std::vector<double>> seconds(all.size());
  std::vector<std::size_t> workspace(all.size());
  for (std::int64_t round = 0; round <= o.rounds; ++round)  // the first only warms up
    for (std::size_t v = 0; v < all.size(); ++v) {
      const std::size_t before = bytes_in_use(o.device);
      memory::reset_peak(o.device);
      const std::vector<double> found = task.run(*all[v].inference);
      workspace[v] = std::max(workspace[v], memory::statistics(o.device).peak - before);
      if (round > 0) seconds[v].insert(seconds[v].end(), found.begin(), found.end());
    }
  std::vector<InferCost> costs;
  std::optional<double> none;
  for (std::size_t v = 0; v < all.size(); ++v) {
    InferCost cost;
    cost.task = task.name, cost.normalizer = all[v].name;
    cost.median = quantile(seconds[v], 0.5), cost.p90 = quantile(seconds[v], 0.9);
    cost.tokens_per_second = task.tokens / cost.median;
    cost.peak = double(all[v].bytes + workspace[v]);
    if (cost.normalizer == "none") none = cost.median;
    costs.push_back(cost);
  }
  for (InferCost& cost : costs)
    if (none) cost.over_none = cost.median / *none;
  return costs;
}

}  // namespace

std::vector<InferCost> measure_inference(const InferBenchOptions& o) {
  check(o);
  std::vector<InferCost> costs;
  for (const std::string& dtype : o.dtypes) {
    const std::vector<Variant> all = variants(o, dtype);
    if (!o.save.empty() && dtype == o.dtypes.front())
      for (const Variant& v : all) write_model_directory(o.save + "/" + v.name, *v.model);
    for (std::int64_t batch : o.batches)
      for (std::int64_t length : o.lengths)
        for (const Measurement& task : tasks(o, batch, length))
          for (InferCost& cost : costs_of(task, all, o)) {
            cost.dtype = dtype, cost.batch = batch, cost.length = length;
            costs.push_back(std::move(cost));
          }
  }
  return costs;
}

}  // namespace foldgrad
