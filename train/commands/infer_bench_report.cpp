#include <fmt/format.h>

#include <algorithm>

#include "train/commands/infer_bench.h"

namespace foldgrad {
namespace {

bool same_block(const InferCost& a, const InferCost& b) {
  return a.dtype == b.dtype && a.batch == b.batch && a.length == b.length;
}

template <class Value>
Plot against(const std::vector<InferCost>& costs, std::int64_t InferCost::*x, Plot plot, const Value& value) {
  for (const InferCost& cost : costs) {
    const std::optional<double> y = value(cost);
    if (!y) continue;
    const auto named = [&](const Series& s) { return s.name == cost.normalizer; };
    auto series = std::ranges::find_if(plot.series, named);
    if (series == plot.series.end()) series = plot.series.insert(series, {cost.normalizer, {}});
    series->points.emplace_back(double(cost.*x), *y);
  }
  return plot;
}

void add_sweep(std::vector<Plot>& plots, const std::vector<InferCost>& costs, std::int64_t InferCost::*x,
               const std::string& label) {
  const std::string title = fmt::format("{}, {}", costs[0].task, costs[0].dtype);
  plots.push_back(against(costs, x, {title, label, "tokens / s", true, {}},
                          [](const InferCost& c) { return std::optional(c.tokens_per_second); }));
  plots.push_back(against(costs, x, {title, label, "time / time of none", false, {}},
                          [](const InferCost& c) { return c.over_none; }));
}

}  // namespace

std::string cost_table(const std::vector<InferCost>& costs) {
  std::string text;
  const InferCost* last = nullptr;
  for (const InferCost& c : costs) {
    if (!last || !same_block(*last, c))
      text +=
          fmt::format("{}{}, batch {}, length {}\n{:8}  {:16}{:>11}{:>11}{:>11}{:>9}{:>9}\n", last ? "\n" : "", c.dtype,
                      c.batch, c.length, "task", "normalizer", "median ms", "p90 ms", "tokens/s", "peak MB", "/ none");
    text += fmt::format("{:8}  {:16}{:11.3f}{:11.3f}{:11.0f}{:9.0f}{:>9}\n", c.task, c.normalizer, 1e3 * c.median,
                        1e3 * c.p90, c.tokens_per_second, c.peak / 1e6,
                        c.over_none ? fmt::format("{:.3f}", *c.over_none) : "-");
    last = &c;
  }
  return text;
}

nlohmann::ordered_json cost_json(const std::vector<InferCost>& costs, const InferBenchOptions& options) {
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const InferCost& c : costs)
    results.push_back({{"task", c.task},
                       {"normalizer", c.normalizer},
                       {"dtype", c.dtype},
                       {"batch", c.batch},
                       {"length", c.length},
                       {"median_ms", 1e3 * c.median},
                       {"p90_ms", 1e3 * c.p90},
                       {"tokens_per_second", c.tokens_per_second},
                       {"peak_bytes", c.peak},
                       {"over_none", c.over_none ? nlohmann::ordered_json(*c.over_none) : nullptr}});
  return {{"rounds", options.rounds},
          {"beam", options.beam},
          {"device", name(options.device)},
          {"time", options.cpu_time ? "cpu" : "wall"},
          {"width", options.config.width},
          {"layers", options.config.encoder_layers},
          {"results", results}};
}

std::vector<Plot> cost_plots(const std::vector<InferCost>& costs, const InferBenchOptions& options) {
  std::vector<Plot> plots;
  const bool batches = options.batches.size() > 1, lengths = options.lengths.size() > 1 || !batches;
  for (const std::string& dtype : options.dtypes)
    for (const char* task : {"encoder", "token", "greedy", "beam"}) {
      const auto with = [&](std::int64_t InferCost::*fixed, std::int64_t value) {
        std::vector<InferCost> some;
        std::ranges::copy_if(costs, std::back_inserter(some), [&](const InferCost& c) {
          return c.dtype == dtype && c.task == task && c.*fixed == value;
        });
        return some;
      };
      const std::int64_t batch = options.batches.back(), length = options.lengths.back();
      if (lengths)
        add_sweep(plots, with(&InferCost::batch, batch), &InferCost::length, fmt::format("length, batch {}", batch));
      if (batches)
        add_sweep(plots, with(&InferCost::length, length), &InferCost::batch, fmt::format("batch, length {}", length));
    }
  return plots;
}

}  // namespace foldgrad
