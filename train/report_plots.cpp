#include "train/report.h"

namespace foldgrad {
namespace {

using nlohmann::ordered_json;

void add_point(Series& series, const ordered_json& event, const ordered_json& value) {
  if (value.is_number() && event.at("step").is_number())
    series.points.emplace_back(event.at("step").get<double>(), value.get<double>());
}

struct Curve {
  const char *title, *event, *key, *unit;
  bool logarithmic;
};

constexpr Curve kCurves[] = {
    {"Training loss", "train", "loss", "nats per token, smoothed", false},
    {"Validation loss", "validate", "loss", "nats per token", false},
    {"Validation perplexity", "validate", "perplexity", "", true},
    {"BLEU on the validation text", "validate", "bleu", "sacreBLEU, 13a", false},
    {"Learning rate", "train", "lr", "", false},
    {"Norm of the gradient", "train", "gradient_norm", "before clipping", true},
    {"Speed", "train", "tokens_per_second", "tokens / s", false},
};

Plot across_runs(const Curve& curve, const std::vector<RunLog>& runs) {
  Plot plot{curve.title, "update", curve.unit, curve.logarithmic, {}};
  for (const RunLog& run : runs) {
    Series series{run.name, {}};
    for (const ordered_json* e : run.of_kind(curve.event))
      if (e->contains(curve.key)) add_point(series, *e, e->at(curve.key));
    plot.series.push_back(std::move(series));
  }
  return plot;
}

// "encoder.layers.0.self_attn_layer_norm" as "encoder.0.self_attn", since legends are narrow.
std::string short_name(std::string site) {
  for (const std::string_view part : {".layers", "_layer_norm"})
    if (const std::size_t at = site.find(part); at != std::string::npos) site.erase(at, part.size());
  return site;
}

// Of the events "layers", one series for each layer or site. `key` is empty when a site's value is the number itself.
Plot of_layers(const RunLog& run, const char* title, const char* group, const char* key, bool logarithmic) {
  Plot plot{run.name + ": " + title, "update", "", logarithmic, {}};
  std::map<std::string, std::size_t> index;
  for (const ordered_json* e : run.of_kind("layers"))
    for (const auto& [site, values] : e->at(group).items()) {
      if (*key && !values.contains(key)) continue;
      const auto [found, added] = index.emplace(site, plot.series.size());
      if (added) plot.series.push_back({short_name(site), {}});
      add_point(plot.series[found->second], *e, *key ? values.at(key) : values);
    }
  return plot;
}

}  // namespace

std::vector<Plot> report_plots(const std::vector<RunLog>& runs) {
  std::vector<Plot> plots;
  for (const Curve& curve : kCurves) plots.push_back(across_runs(curve, runs));
  for (const RunLog& run : runs) {
    plots.push_back(of_layers(run, "norm of the gradient by layer", "gradient_norms", "", true));
    plots.push_back(of_layers(run, "greatest running variance", "normalizers", "greatest_variance", true));
    plots.push_back(of_layers(run, "least running variance", "normalizers", "least_variance", true));
    plots.push_back(of_layers(run, "AM / GM of the window of mean squares", "normalizers", "am_over_gm", false));
    plots.push_back(of_layers(run, "skips since the beginning", "normalizers", "skips", false));
  }
  std::erase_if(plots, [](const Plot& plot) { return plot.series.empty(); });
  return plots;
}

}  // namespace foldgrad
