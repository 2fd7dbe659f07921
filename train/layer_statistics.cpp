#include "train/layer_statistics.h"

#include <cmath>

namespace foldgrad {
namespace {

// Layers of a stack are numbered: "encoder.layers.0.fc1.weight" belongs to "encoder.layers.0".
std::string layer_of(const std::string& parameter) {
  constexpr std::string_view kLayers = ".layers.";
  const std::size_t layers = parameter.find(kLayers);
  if (layers != std::string::npos) return parameter.substr(0, parameter.find('.', layers + kLayers.size()));
  return parameter.substr(0, parameter.rfind('.'));
}

}  // namespace

std::map<std::string, double> gradient_norms(const std::vector<Parameter*>& parameters) {
  std::map<std::string, double> norms;
  for (const Parameter* p : parameters) {
    if (!p->grad.defined()) continue;
    double squares = 0;
    for (const double g : p->grad.to(Device::cpu).to(DType::f64).values<double>()) squares += g * g;
    norms[layer_of(p->name)] += squares;
  }
  for (auto& [layer, norm] : norms) norm = std::sqrt(norm);
  return norms;
}

std::optional<double> window_am_over_gm(const Tensor& window) {
  const std::vector<double> values = window.to(Device::cpu).to(DType::f64).values<double>();
  const std::size_t rows = std::size_t(window.shape()[0]), channels = std::size_t(window.shape()[1]);
  double ratios = 0, counted = 0;
  for (std::size_t c = 0; c < channels; ++c) {
    double sum = 0, logs = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      sum += values[r * channels + c];
      logs += std::log(values[r * channels + c]);
    }
    if (!std::isfinite(logs)) continue;
    ratios += sum / double(rows) / std::exp(logs / double(rows));
    ++counted;
  }
  return counted > 0 ? std::optional(ratios / counted) : std::nullopt;
}

nlohmann::ordered_json normalizer_statistics(const std::vector<Normalizer*>& normalizers) {
  nlohmann::ordered_json sites = nlohmann::ordered_json::object();
  for (const Normalizer* norm : normalizers) {
    const auto state = norm->state();
    if (state.empty()) continue;
    const NormDiagnostics d = norm->diagnostics();
    nlohmann::ordered_json& site = sites[norm->site()];
    if (state.count("iters")) site["iterations"] = d.iterations;
    if (state.count("skips")) site["skips"] = d.skips;
    if (d.least_variance) site["least_variance"] = *d.least_variance;
    if (d.greatest_variance) site["greatest_variance"] = *d.greatest_variance;
    const auto window = state.find("win_sq");
    const auto ratio = window == state.end() ? std::nullopt : window_am_over_gm(window->second);
    if (ratio) site["am_over_gm"] = *ratio;
  }
  return sites;
}

}  // namespace foldgrad
