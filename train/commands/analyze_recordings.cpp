// Analyses of recorded normalizers: pnac and gradient, a number for each iteration, and traces of channels.
#include <algorithm>
#include <cmath>
#include <set>

#include "engine/files/file.h"
#include "models/options/nearest_name.h"
#include "train/analyses/pnac.h"
#include "train/commands/analyze.h"
#include "train/reports/recordings.h"
#include "train/reports/report.h"

namespace foldgrad {
namespace {

using nlohmann::ordered_json;

struct RecordedRun {
  std::string path, name;
  std::vector<RecordedPhase> phases;  // at least one

  const Recording& first() const { return phases[0].recording; }
};

// Throws FileError for a run without recordings, and unless all are of the run's model.
std::vector<RecordedRun> recorded_runs(const std::vector<std::string>& paths) {
  const std::vector<std::string> names = distinct_names(paths);
  std::vector<RecordedRun> runs;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    RecordedRun run{paths[i], names[i], recorded_phases(paths[i])};
    if (run.phases.empty())
      throw FileError(run.path, "has no recordings: it must have been trained with record.from, such as [100, -200]");
    runs.push_back(std::move(run));
  }
  return runs;
}

struct Curve {
  std::string name;  // "q begin", ...
  std::vector<double> values;

  // Leaves out NaN; returns NaN if nothing is left.
  double mean() const {
    double sum = 0, count = 0;
    for (const double v : values)
      if (!std::isnan(v)) sum += v, ++count;
    return sum / count;
  }
};

struct SiteCurves {
  std::vector<std::string> cells;  // of the table, before the means
  ordered_json json;               // before the curves
  std::vector<Curve> curves = {};
};

// Returns a row of means for each site. `json`: the members before the sites.
Answer answer_of(std::string title, ordered_json json, std::vector<std::string> header, std::vector<SiteCurves> sites,
                 int digits) {
  for (const Curve& curve : sites[0].curves) header.push_back(curve.name);
  Rows rows{header};
  for (SiteCurves& site : sites) {
    for (const Curve& curve : site.curves) {
      const double mean = curve.mean();
      site.cells.push_back(std::isnan(mean) ? "-" : fmt::format("{:.{}f}", mean, digits));
      site.json[curve.name] = {{"mean", mean}, {"values", curve.values}};
    }
    rows.push_back(std::move(site.cells));
    json["sites"].push_back(std::move(site.json));
  }
  return {title + "\n" + aligned(rows), std::move(json)};
}

struct TracedChannel {
  std::size_t site;
  std::int64_t channel;
};

struct ChannelTrace {
  std::string name;  // "q begin", ...
  std::vector<std::int64_t> updates;
  std::vector<double> values;
  MovingMeans means;
};

std::size_t site_named(const Recording& recording, const std::string& name) {
  std::vector<std::string> names;
  for (const SiteRecording& s : recording.sites) names.push_back(s.site);
  const auto found = std::ranges::find(names, name);
  FOLDGRAD_CHECK(found != names.end(), "--site {}: is not recorded{} Recorded are: {}", name,
                 did_you_mean(name, names, "\"", "."), fmt::join(names, ", "));
  return found - names.begin();
}

// Returns channels of the requested site, or of the first, the middle and the last site: the requested channel, or
// those with the least and the greatest AM/GM.
std::vector<TracedChannel> traced_channels(const Recording& first, const AnalyzeOptions& o, std::int64_t window) {
  const std::size_t last = first.sites.size() - 1;
  std::set<std::size_t> sites = {0, last / 2, last};
  if (!o.site.empty()) sites = {site_named(first, o.site)};
  std::vector<TracedChannel> channels;
  for (const std::size_t site : sites) {
    const SiteRecording& s = first.sites[site];
    FOLDGRAD_CHECK(o.channel < s.channels, "--channel must be below {}, the channels of {}, got {}", s.channels, s.site,
                   o.channel);
    const auto [least, greatest] = o.channel >= 0 ? std::pair(o.channel, o.channel) : outstanding_channels(s, window);
    channels.push_back({site, least});
    if (greatest != least) channels.push_back({site, greatest});
  }
  return channels;
}

std::vector<ChannelTrace> traces_of(const RecordedRun& run, const TracedChannel& at, std::int64_t window) {
  std::vector<ChannelTrace> traces;
  for (const char* quantity : {"q", "G"})
    for (const auto& [phase, path, recording] : run.phases) {
      const SiteRecording& s = recording.sites[at.site];
      if (*quantity == 'G' && s.G.empty()) continue;
      const std::vector<double> values = channel_values(*quantity == 'q' ? s.q : s.G, s.channels, at.channel);
      traces.push_back(
          {fmt::format("{} {}", quantity, phase), recording.updates, values, moving_means(values, window)});
    }
  return traces;
}

std::string table_of(const std::vector<ChannelTrace>& traces) {
  Rows rows{{"", "mean", "least", "greatest", "mean AM", "mean GM", "greatest AM/GM"}};
  for (const ChannelTrace& t : traces) {
    double ratio = 0;
    for (std::size_t i = 0; i < t.means.arithmetic.size(); ++i)
      ratio = std::max(ratio, t.means.arithmetic[i] / t.means.geometric[i]);
    const auto [least, greatest] = std::ranges::minmax(t.values);
    const double gm = mean_of(t.means.geometric);
    rows.push_back({t.name, fmt::format("{:.4g}", mean_of(t.values)), fmt::format("{:.4g}", least),
                    fmt::format("{:.4g}", greatest), fmt::format("{:.4g}", mean_of(t.means.arithmetic)),
                    std::isnan(gm) ? "-" : fmt::format("{:.4g}", gm),
                    std::isnan(gm) ? "-" : fmt::format("{:.4g}", ratio)});
  }
  return aligned(rows);
}

ordered_json json_of(const ChannelTrace& t) {
  return {{"updates", t.updates}, {"values", t.values}, {"am", t.means.arithmetic}, {"gm", t.means.geometric}};
}

}  // namespace

std::vector<Answer> analyze_pnac(const AnalyzeOptions& o) {
  const std::int64_t window = o.window > 0 ? o.window : 32;
  NoiseCurves noise;
  std::vector<Answer> all;
  for (const RecordedRun& run : recorded_runs(o.runs)) {
    const std::string& normalizer = run.first().normalizer;
    std::string title = fmt::format("{}: {}, PNAC in percent, window {}", run.name, normalizer, window);
    std::vector<SiteCurves> sites;
    for (const SiteRecording& s : run.first().sites)
      sites.push_back({{s.site, std::to_string(s.channels)}, {{"site", s.site}, {"channels", s.channels}}});
    for (const RecordedPhase& phase : run.phases) {
      for (std::size_t i = 0; i < sites.size(); ++i)
        for (auto& [name, percent] : pnac_curves(phase, i, window, noise)) sites[i].curves.push_back({name, percent});
      const std::vector<std::int64_t>& updates = phase.recording.updates;
      title += fmt::format(", {}: {} windows in updates {} to {}", phase.name, phase.recording.rows() - window + 1,
                           updates.front(), updates.back());
    }
    all.push_back(answer_of(title, {{"run", run.path}, {"normalizer", normalizer}, {"window", window}},
                            {"site", "channels"}, std::move(sites), 1));
  }
  return all;
}

std::vector<Answer> analyze_gradient(const AnalyzeOptions& o) {
  constexpr const char* kNumbers[kGradientNumbers] = {"cosine", "norm ratio", "lambda < 1"};
  std::vector<Answer> all;
  for (const RecordedRun& run : recorded_runs(o.runs)) {
    const std::string& normalizer = run.first().normalizer;
    std::vector<SiteCurves> sites;
    for (std::size_t i = 0; i < run.first().sites.size(); ++i) {
      const std::string& name = run.first().sites[i].site;
      SiteCurves site{{name}, {{"site", name}}};
      for (const auto& [phase, path, recording] : run.phases)
        if (const std::vector<float>& dx = recording.sites[i].dx; !dx.empty())
          for (std::int64_t k = 0; k < kGradientNumbers; ++k)
            site.curves.push_back({fmt::format("{} {}", kNumbers[k], phase), channel_values(dx, kGradientNumbers, k)});
      if (site.curves.size() == kGradientNumbers * run.phases.size()) sites.push_back(std::move(site));
    }
    if (sites.empty())
      throw FileError(run.path,
                      fmt::format("has no gradients to compare: no site has SITE.dx, which is recorded of normalizers "
                                  "by mean squares over positions, such as un with mode = \"paper\"; this is {}",
                                  normalizer));
    all.push_back(answer_of(fmt::format("{}: {}, dx and the exact gradient", run.name, normalizer),
                            {{"run", run.path}, {"normalizer", normalizer}}, {"site"}, std::move(sites), 4));
  }
  return all;
}

std::vector<Answer> analyze_trace(const AnalyzeOptions& o) {
  const std::int64_t window = o.window > 0 ? o.window : kTraceWindow;
  std::vector<Answer> all;
  for (const RecordedRun& run : recorded_runs(o.runs)) {
    const Recording& first = run.first();
    for (const TracedChannel& at : traced_channels(first, o, window)) {
      const std::string& site = first.sites[at.site].site;
      const std::vector<ChannelTrace> traces = traces_of(run, at, window);
      Answer one{fmt::format("{}: {}, channel {}, window {}\n{}", run.name, site, at.channel, window, table_of(traces)),
                 {{"run", run.path}, {"site", site}, {"channel", at.channel}, {"window", window}}};
      for (const ChannelTrace& t : traces) one.json[t.name] = json_of(t);
      all.push_back(std::move(one));
    }
  }
  return all;
}

}  // namespace foldgrad
