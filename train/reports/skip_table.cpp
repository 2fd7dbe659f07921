#include "train/reports/skip_table.h"

#include "engine/files/file.h"
#include "train/runs/directory.h"

namespace foldgrad {

using nlohmann::ordered_json;

namespace {

std::int64_t count_of(const ordered_json& site, const char* key) {
  const auto found = site.find(key);
  return found != site.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

}  // namespace

SkipTable skip_table(const RunLog& log) {
  const std::vector<const ordered_json*> layers = log.of_kind("layers");
  const std::string path = RunDirectory(log.path).log();
  if (layers.empty()) throw FileError(path, "has no event \"layers\": the run has not been validated yet");
  const auto step_of = [](const ordered_json* e) { return e->at("step").get<std::int64_t>(); };
  const std::int64_t steps = step_of(layers.back());
  SkipTable table;
  std::vector<const ordered_json*> chosen;
  for (const std::int64_t third : {1, 2, 3}) {
    const ordered_json* last = nullptr;
    for (const ordered_json* e : layers)
      if (3 * step_of(e) <= third * steps) last = e;
    if (!last || (!chosen.empty() && chosen.back() == last)) continue;
    chosen.push_back(last);
    table.steps.push_back(step_of(last));
  }
  for (const auto& [name, site] : chosen.back()->at("normalizers").items()) {
    if (!site.contains("skips")) continue;
    SkipTable::Site row{name, {}, count_of(site, "iterations")};
    for (const ordered_json* e : chosen) {
      const ordered_json& then = e->at("normalizers");
      row.skips.push_back(then.contains(name) ? count_of(then[name], "skips") : 0);
    }
    table.sites.push_back(std::move(row));
  }
  if (table.sites.empty()) throw FileError(path, "reports no skips: the run's normalizers have no outlier test");
  return table;
}

}  // namespace foldgrad
