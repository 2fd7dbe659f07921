#include "train/analyses/layer_statistics.h"

#include <algorithm>
#include <cmath>

namespace foldgrad {
namespace {

constexpr std::size_t kShownChannels = 4;

// Returns the layer of a parameter, including the layer's number: "encoder.layers.0" for "encoder.layers.0.fc1.weight".
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

std::optional<double> am_over_gm(const std::vector<NormDiagnostics::Means>& window) {
  double ratios = 0, counted = 0;
  for (const NormDiagnostics::Means& channel : window) {
    if (!(channel.geometric > 0) || !std::isfinite(channel.arithmetic)) continue;
    ratios += channel.arithmetic / channel.geometric;
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
    if (const auto ratio = am_over_gm(d.window)) site["am_over_gm"] = *ratio;
    if (d.clamped) site["clamped"] = *d.clamped;
    const std::size_t C = d.window.size(), step = std::max(C / kShownChannels, std::size_t(1));
    for (std::size_t c = 0; c < std::min(C, kShownChannels * step); c += step)
      site["window"].push_back({{"channel", c}, {"am", d.window[c].arithmetic}, {"gm", d.window[c].geometric}});
  }
  return sites;
}

}  // namespace foldgrad
