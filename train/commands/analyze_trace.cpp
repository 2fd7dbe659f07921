#include <algorithm>
#include <cmath>
#include <set>

#include "models/options/nearest_name.h"
#include "train/analyses/pnac.h"
#include "train/commands/analyze.h"
#include "train/reports/report.h"

namespace foldgrad {
namespace {

struct TracedChannel {
  std::size_t site;
  std::int64_t channel;
  auto operator<=>(const TracedChannel&) const = default;
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

// Returns the channel that was asked for, or those of the least and the greatest AM/GM, of the site that was asked for,
// or of the first, the middle and the last.
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

nlohmann::ordered_json json_of(const ChannelTrace& t) {
  return {{"updates", t.updates}, {"values", t.values}, {"am", t.means.arithmetic}, {"gm", t.means.geometric}};
}

}  // namespace

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
