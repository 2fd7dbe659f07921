// Freezes the statistics of normalizers: makes the running statistics equal to those of a training pass. Then the
// training pass, inference and the folded model compute the same function, in every family.
#pragma once
#include <cmath>
#include <functional>

#include "models/model.h"

namespace foldgrad::testing {

using Options = std::map<std::string, std::string>;

struct Setting {
  std::string normalizer;
  Options options = {};
};

// Returns all offline normalizers, in each form that computes its training statistics differently, and pn, which is
// offline except for its scaling per token. With warmup = 2, the first iteration uses the statistics of its batch, like
// all iterations of forms without averages; later iterations use averages. prepbn reaches its final form after `total`
// iterations; before that, its training pass is partly a layer normalization. With eps = 0.5, some of rbn's variances
// are clamped and some are not.
inline std::vector<Setting> settings() {
  std::vector<Setting> all{{"prepbn", {{"total", "100"}}}, {"rbn", {{"eps", "0.5"}}}};
  for (const char* name : {"affine", "bn", "centernorm", "none", "qmbn", "repbn", "rbn", "scale"})
    all.push_back({name});
  const auto add = [&all](const char* normalizer, Options options) {
    options["warmup"] = "2";
    all.push_back({normalizer, options});
  };
  for (const char* mode : {"paper", "reference"}) {
    for (const char* name : {"mabn", "pn_star", "un"}) add(name, {{"mode", mode}});
    add("pn", {{"mode", mode}, {"groups", "2"}});
  }
  for (const char* average : {"none", "arithmetic", "exponential"}) add("un", {{"forward_average", average}});
  for (const char* granularity : {"channel", "layer_any", "layer_sum", "pooled"})
    add("un", {{"filtration", "1"}, {"granularity", granularity}});
  add("un", {{"rescale", "both"}});
  return all;
}

// The statistics of each channel over all rows: the mean, and the mean of x^2 or, with `centered`, of (x - mean)^2.
struct Moments {
  std::vector<double> mean, square;
};
inline Moments moments_of(const Tensor& rows, bool centered) {
  const Tensor x = rows.to(DType::f64);
  const std::int64_t C = x.shape()[-1], n = x.size() / C;
  Moments m{std::vector<double>(C), std::vector<double>(C)};
  for (std::int64_t c = 0; c < C; ++c) {
    for (std::int64_t i = 0; i < n; ++i) m.mean[c] += x.data<double>()[i * C + c] / double(n);
    const double center = centered ? m.mean[c] : 0;
    for (std::int64_t i = 0; i < n; ++i) m.square[c] += std::pow(x.data<double>()[i * C + c] - center, 2) / double(n);
  }
  return m;
}

// Records `forward` on a tape. Returns, for each site, the tensor whose statistics the site computes. Omits sites whose
// input is a constant, since no recorded operation computes it.
inline NamedTensors statistics_inputs(const std::function<void(Tape&)>& forward) {
  NamedTensors inputs;
  std::map<int, Tensor> values;
  Tape tape;
  tape.observe([&](const Node& node, const Tensor& y) {
    values[node.output()] = y;
    const std::string op = node.name();
    if (op != "channel_norm" && op != "power_norm") return;
    if (const auto x = values.find(node.inputs()[0]); x != values.end()) inputs[node.scope()] = x->second;
  });
  forward(tape);
  return inputs;
}

// At each site, copies the statistics of one training pass into the running statistics and into all rows of the window.
// `constants` are the inputs of the sites that statistics_inputs() omits. bn's running variance thus becomes the biased
// variance v, by which training divides. In training, bn would average v n / (n - 1) instead.
inline void freeze(Model& model, std::int64_t iterations, const std::function<void(Tape&)>& training_pass,
                   const NamedTensors& constants = {}) {
  for (Normalizer* norm : model.normalizers())
    if (norm->info().name == "prepbn") norm->state().at("steps").data<std::int64_t>()[0] = iterations;
  NamedTensors inputs = statistics_inputs(training_pass);
  inputs.insert(constants.begin(), constants.end());
  for (Normalizer* norm : model.normalizers()) {
    auto state = norm->state();
    if (state.empty()) continue;
    const Moments m = moments_of(inputs.at(norm->site()), state.count("run_mean"));
    for (auto& [name, tensor] : state) {
      if (name == "iters") tensor.data<std::int64_t>()[0] = iterations;
      if (name != "run_mean" && name != "run_var" && name != "phi" && name != "win_sq") continue;
      const Tensor row = Tensor::of({norm->channels()}, name == "run_mean" ? m.mean : m.square).to(tensor.dtype());
      if (name != "win_sq") tensor.copy_from(row);
      for (std::int64_t k = 0; name == "win_sq" && k < tensor.shape()[0]; ++k)
        tensor.slice(k, k + 1).copy_from(row.reshape({1, norm->channels()}));
    }
  }
}

}  // namespace foldgrad::testing
