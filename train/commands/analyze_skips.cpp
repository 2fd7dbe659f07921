#include <algorithm>
#include <cmath>

#include "engine/files/file.h"
#include "train/analyses/outliers.h"
#include "train/commands/analyze.h"
#include "train/config/config.h"
#include "train/reports/recordings.h"
#include "train/reports/report.h"
#include "train/reports/run_log.h"
#include "train/runs/directory.h"

namespace foldgrad {
namespace {

using nlohmann::ordered_json;

// Returns the last validation in each third of the training; skips thirds without one.
std::vector<const ordered_json*> thirds_of(const std::vector<const ordered_json*>& layers) {
  const auto step_of = [](const ordered_json* e) { return e->at("step").get<std::int64_t>(); };
  std::vector<const ordered_json*> chosen;
  for (const std::int64_t third : {1, 2, 3}) {
    const ordered_json* last = nullptr;
    for (const ordered_json* e : layers)
      if (3 * step_of(e) <= third * step_of(layers.back())) last = e;
    if (last && (chosen.empty() || chosen.back() != last)) chosen.push_back(last);
  }
  return chosen;
}

// Adds "outliers" to each recorded site: how often its outlier test fires in each phase of the recording and on noise
// like it, in percent of the iterations.
void add_outliers(ordered_json& sites, const std::string& run, const BlockConfig& config) {
  const std::vector<RecordedPhase> phases = recorded_phases(run);
  for (ordered_json& site : sites)
    for (const RecordedPhase& phase : phases) {
      const auto s = std::ranges::find(phase.recording.sites, site["site"].get<std::string>(), &SiteRecording::site);
      if (s == phase.recording.sites.end()) continue;
      const bool has_defaults = config.normalizer_at.contains(s->site);
      const auto options = has_defaults ? std::map<std::string, std::string>() : config.normalizer_options;
      const auto add = [&](const char* values, const std::vector<float>& q) {
        site["outliers"][fmt::format("{} {}", values, phase.name)] = percent_of_outliers(options, q, s->channels);
      };
      add("recorded", s->q);
      add("shuffled", shuffled_in_time(s->q, s->channels));
      add("normal", normal_noise_like(s->q, s->channels));
    }
}

// Throws FileError for a log without a validation, or if its normalizers have no outlier test.
ordered_json skips_of(const RunLog& log) {
  const std::vector<const ordered_json*> layers = log.of_kind("layers");
  const std::string path = RunDirectory(log.path).log();
  if (layers.empty()) throw FileError(path, "has no event \"layers\": the run has not been validated yet");
  const std::vector<const ordered_json*> chosen = thirds_of(layers);
  // The first iteration that the configuration allows to be skipped.
  const ExperimentConfig config = read_config(RunDirectory(log.path).config());
  const std::int64_t first = std::max<std::int64_t>(1, norm_warmup(config.blocks()).iterations);
  ordered_json all{{"run", log.path}, {"steps", ordered_json::array()}, {"first_filtered", first}};
  for (const ordered_json* e : chosen) all["steps"].push_back(e->at("step"));
  for (const auto& [name, site] : chosen.back()->at("normalizers").items()) {
    if (!site.contains("skips")) continue;
    std::vector<std::int64_t> skips;
    for (const ordered_json* e : chosen)
      skips.push_back(whole_number(e->at("normalizers").value(name, ordered_json()), "skips"));
    const std::int64_t iterations = whole_number(site, "iterations"), filtered = iterations - first + 1;
    all["sites"].push_back({{"site", name},
                            {"skips", skips},
                            {"iterations", iterations},
                            {"percent", filtered > 0 ? 100.0 * double(skips.back()) / double(filtered) : 0}});
  }
  if (!all.contains("sites")) throw FileError(path, "reports no skips: the run's normalizers have no outlier test");
  add_outliers(all["sites"], log.path, config.blocks());
  return all;
}

std::string table_of(const ordered_json& all) {
  Rows rows{{"site"}};
  for (const ordered_json& step : all["steps"]) rows[0].push_back("up to " + step.dump());
  rows[0].push_back(fmt::format("% from {}", all["first_filtered"].get<std::int64_t>()));
  const ordered_json outliers = all["sites"][0].value("outliers", ordered_json::object());
  for (const auto& [values, percent] : outliers.items()) rows[0].push_back("% " + values);
  std::vector<std::int64_t> totals(all["steps"].size());
  for (const ordered_json& site : all["sites"]) {
    rows.push_back({site["site"].get<std::string>()});
    for (std::size_t i = 0; i < totals.size(); ++i) {
      const auto skips = site["skips"][i].get<std::int64_t>();
      totals[i] += skips;
      rows.back().push_back(fmt::format("{}", skips));
    }
    rows.back().push_back(fmt::format("{:.2f}", site["percent"].get<double>()));
    for (const auto& [values, percent] : outliers.items()) {
      const auto of_site = site["outliers"][values].get<double>();
      rows.back().push_back(std::isnan(of_site) ? "-" : fmt::format("{:.1f}", of_site));
    }
  }
  rows.push_back({"all"});
  for (const std::int64_t total : totals) rows.back().push_back(fmt::format("{}", total));
  rows.back().resize(rows[0].size());
  return aligned(rows);
}

}  // namespace

std::vector<Answer> analyze_skips(const AnalyzeOptions& o) {
  std::vector<Answer> all;
  for (const RunLog& log : read_run_logs(o.runs)) {
    ordered_json skips = skips_of(log);
    all.push_back({fmt::format("{}: iterations skipped, by update\n{}", log.name, table_of(skips)), std::move(skips)});
  }
  return all;
}

}  // namespace foldgrad
