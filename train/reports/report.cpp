#include "train/reports/report.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <ranges>
#include <string_view>

#include "engine/files/file.h"
#include "train/reports/recordings.h"
#include "train/runs/directory.h"
#include "train/system/printable.h"

namespace foldgrad {

// The page before it is filled in, made by cmake/write_report_template.cmake of the files in train/reports/page. It has
// {{title}}, twice, and {{data}}, the JSON of report.h, each where HTML's text may stand.
extern const std::string_view kReportTemplate;

namespace {

using nlohmann::ordered_json;

ordered_json files_of(const RunLog& run) {
  const RunDirectory directory(run.path);
  ordered_json files = ordered_json::array();
  const auto add = [&](const std::string& title, const std::string& path) {
    const std::string text = text_or_nothing(path);
    if (!text.empty()) files.push_back({{"title", title}, {"text", text}});
  };
  if (const auto validated = run.of_kind("validate"); !validated.empty())
    add("Samples of the last validation", directory.sample(validated.back()->at("step")));
  add("config.toml", directory.config());
  add("command.txt", directory.command());
  add("env.json", directory.environment());
  return files;
}

bool is_array(const ordered_json& object, const char* key) { return object.contains(key) && object[key].is_array(); }
bool is_text(const ordered_json& object, const char* key) { return object.contains(key) && object[key].is_string(); }

// Returns null without the file.
ordered_json exhibits_of(const std::string& path) {
  const std::string text = text_or_nothing(path);
  if (text.empty()) return nullptr;
  const auto is_exhibit = [](const ordered_json& e) {
    if (!e.is_object() || !is_text(e, "title") || !is_text(e, "note")) return false;
    if (is_array(e, "pictures")) return true;
    return e.contains("matrix") && is_array(e["matrix"], "names") && is_array(e["matrix"], "counts");
  };
  ordered_json all = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!all.is_array() || !std::ranges::all_of(all, is_exhibit)) throw FileError(path, "is no list of exhibits");
  return all;
}

// Returns groups of at least two runs. Runs without settings belong to none.
ordered_json groups_of(const ordered_json& runs) {
  std::map<std::string, std::vector<std::size_t>> alike;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    ordered_json settings = runs[i]["settings"];
    if (settings.empty()) continue;
    settings.erase("train.seed");
    alike[settings.dump()].push_back(i);
  }
  std::vector<std::vector<std::size_t>> groups;
  for (auto& [settings, members] : alike)
    if (members.size() > 1) groups.push_back(std::move(members));
  std::ranges::sort(groups);
  return groups;
}

// Returns JSON for <script>, where a browser looks for </script> and <!-- only, not for entities: no < may be left. In
// JSON it stands in strings only, where \u003c means the same.
std::string for_script(const nlohmann::ordered_json& data) {
  std::string safe;
  for (const char c : data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace))
    safe += c == '<' ? "\\u003c" : std::string(1, c);
  return safe;
}

std::string title_of(const std::vector<RunLog>& runs) {
  return fmt::format("{}", fmt::join(std::views::transform(runs, &RunLog::name), ", "));
}

// Fills in the values in one pass, so that they are not searched.
std::string filled(std::string_view page, const std::map<std::string_view, std::string>& values) {
  std::string text;
  for (std::size_t begin; (begin = page.find("{{")) != std::string_view::npos;) {
    const std::size_t end = page.find("}}", begin);
    text.append(page.substr(0, begin)).append(values.at(page.substr(begin + 2, end - begin - 2)));
    page.remove_prefix(end + 2);
  }
  return text.append(page);
}

}  // namespace

ordered_json report_data(const std::vector<RunLog>& logs) {
  ordered_json runs = ordered_json::array();
  for (const RunLog& log : logs) {
    ordered_json run = summary_json(summary_of(log));
    run["settings"] = settings_of(log.path);
    run["events"] = log.events;
    run["files"] = files_of(log);
    ordered_json exhibits = exhibits_of(RunDirectory(log.path).exhibits());
    if (!exhibits.is_null()) run["exhibits"] = std::move(exhibits);
    ordered_json recordings = recordings_json(log.path);
    if (!recordings.is_null()) run["recordings"] = std::move(recordings);
    runs.push_back(std::move(run));
  }
  return {{"runs", runs}, {"groups", groups_of(runs)}};
}

std::string report_page(const std::string& title, const nlohmann::ordered_json& data) {
  return filled(kReportTemplate, {{"title", in_markup(title)}, {"data", for_script(data)}});
}

std::string report_html(const std::vector<RunLog>& runs) { return report_page(title_of(runs), report_data(runs)); }

}  // namespace foldgrad
