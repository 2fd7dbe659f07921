#include "train/reports/report.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <ranges>
#include <string_view>

#include "engine/files/file.h"
#include "train/reports/recordings.h"
#include "train/runs/directory.h"
#include "train/system/json_file.h"
#include "train/system/printable.h"

namespace foldgrad {

// The page's template, made by cmake/write_report_template.cmake from the files in train/reports/page. It contains
// {{title}} twice, as HTML text, and {{data}}, the JSON of report.h, in a script.
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

// Checks exhibits from the file at `path`. Errors name the exhibit and its member.
struct ExhibitCheck {
  using Type = ordered_json::value_t;
  const std::string& path;

  void require(const ordered_json& value, const std::string& what, Type type) const {
    const bool is = type == Type::number_float ? value.is_number() : value.type() == type;
    if (!is)
      throw FileError(path, fmt::format("{} must be {}, got {}", what,
                                        type == Type::string   ? "text"
                                        : type == Type::array  ? "an array"
                                        : type == Type::object ? "an object"
                                                               : "a number",
                                        shown(value)));
  }
  const ordered_json& member(const ordered_json& of, const std::string& what, const char* key, Type type) const {
    const auto found = of.find(key);
    if (found == of.end()) throw FileError(path, fmt::format("{} must have {}", what, in_quotes(key)));
    require(*found, what + ": " + in_quotes(key), type);
    return *found;
  }
  void exhibit(const ordered_json& e, const std::string& what) const {
    require(e, what, Type::object);
    for (const char* key : {"title", "note"}) member(e, what, key, Type::string);
    if (e.contains("pictures"))
      for (const ordered_json& picture : member(e, what, "pictures", Type::array)) {
        require(picture, what + ": a picture", Type::object);
        for (const char* key : {"caption", "png"}) member(picture, what + ": a picture", key, Type::string);
      }
    if (!e.contains("matrix") && e.contains("pictures")) return;
    const ordered_json& matrix = member(e, what, "matrix", Type::object);
    for (const ordered_json& name : member(matrix, what + ": the matrix", "names", Type::array))
      require(name, what + ": a name", Type::string);
    for (const ordered_json& row : member(matrix, what + ": the matrix", "counts", Type::array)) {
      require(row, what + ": a row of counts", Type::array);
      for (const ordered_json& count : row) require(count, what + ": a count", Type::number_float);
    }
  }
};

// Returns null if there is no file.
ordered_json read_exhibits(const std::string& path) {
  const std::string text = text_or_nothing(path);
  if (text.empty()) return nullptr;
  ordered_json all = parse_ordered_json(text, path);
  const ExhibitCheck check{path};
  check.require(all, "the exhibits", ordered_json::value_t::array);
  for (std::size_t i = 0; i < all.size(); ++i) check.exhibit(all[i], fmt::format("exhibit {}", i + 1));
  return all;
}

// Returns the groups of runs that differ only in their seed. Runs without settings belong to no group.
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

// Returns JSON that is safe within <script>. There, a browser looks only for </script> and <!--, not for entities, so
// no < may be left. JSON has < only in strings, where \u003c means the same.
std::string for_script(const nlohmann::ordered_json& data) {
  std::string safe;
  for (const char c : data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace))
    c == '<' ? safe.append("\\u003c") : safe.append(1, c);
  return safe;
}

// Replaces the placeholders in one pass, so that inserted values are not searched.
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
    ordered_json exhibits = read_exhibits(RunDirectory(log.path).exhibits());
    if (!exhibits.is_null()) run["exhibits"] = std::move(exhibits);
    ordered_json recordings = recordings_json(log.path);
    if (!recordings.is_null()) run["recordings"] = std::move(recordings);
    runs.push_back(std::move(run));
  }
  ordered_json all{{"runs", nullptr}, {"groups", groups_of(runs)}};
  all["runs"] = std::move(runs);  // an initializer list would copy the runs
  return all;
}

std::string report_html(const std::vector<RunLog>& runs) {
  const std::string title = fmt::format("{}", fmt::join(std::views::transform(runs, &RunLog::name), ", "));
  return filled(kReportTemplate, {{"title", in_markup(title)}, {"data", for_script(report_data(runs))}});
}

}  // namespace foldgrad
