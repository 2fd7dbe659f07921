#include "train/reports/run_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "engine/check.h"
#include "engine/contains.h"
#include "engine/files/file.h"
#include "train/config/config.h"
#include "train/config/given.h"
#include "train/runs/directory.h"
#include "train/system/json_file.h"
#include "train/system/printable.h"

namespace foldgrad {

using nlohmann::ordered_json;

std::vector<const ordered_json*> RunLog::of_kind(const std::string& event) const {
  std::vector<const ordered_json*> found;
  for (const ordered_json& e : events)
    if (e.at("event") == event) found.push_back(&e);
  return found;
}

namespace {

constexpr std::int64_t kMostSteps = std::int64_t(1) << 53;

// Fields on which readers of a log rely. They are checked unless they are missing or null.
struct Fields {
  const char* type;
  bool (ordered_json::*is)() const noexcept;
  std::vector<std::string> names;
};
const Fields kFields[] = {
    {"text", &ordered_json::is_string, {"norm", "score", "validated_on", "outcome", "action", "message"}},
    {"true or false", &ordered_json::is_boolean, {"smaller_is_better", "tf32"}},
    {"a number",
     &ordered_json::is_number,
     {"seconds", "loss", "gradient_norm", "lr", "parameters", "norm_warmup", "steps", "skips", "iterations"}}};

// Checks one line of a log. Throws FileError, which names the line and the field.
struct EventCheck {
  const std::string &path, &where;

  void operator()(const ordered_json& e) const {
    if (!e.is_object()) refuse("", "an object", &e);
    require(e, "event", "text", [](const ordered_json& v) { return v.is_string(); });
    require(e, "step", "an integer from 0 to 2^53",
            [](const ordered_json& v) { return v.is_number_integer() && v <= kMostSteps && v >= 0; });
    check_fields(e, "");
    if (e["event"] != "layers") return;
    const auto is_object = [](const ordered_json& v) { return v.is_object(); };
    require(e, "gradient_norms", "an object", is_object);
    require(e, "normalizers", "an object", is_object);
    for (const auto& [site, values] : e["normalizers"].items()) {
      if (!values.is_object()) refuse("normalizers." + site, "an object", &values);
      check_fields(values, "normalizers." + site + ".");
    }
  }

  [[noreturn]] void refuse(const std::string& name, const char* type, const ordered_json* got) const {
    throw FileError(path, fmt::format("{}{}must be {}, got {}", where, name.empty() ? "" : in_quotes(name) + " ", type,
                                      got ? shown(*got) : "nothing"));
  }
  void require(const ordered_json& e, const char* name, const char* type, const auto& is) const {
    const auto found = e.find(name);
    if (found == e.end()) refuse(name, type, nullptr);
    if (!is(*found)) refuse(name, type, &*found);
  }
  void check_fields(const ordered_json& object, const std::string& prefix) const {
    for (const auto& [name, value] : object.items()) {
      if (value.is_null()) continue;
      for (const auto& [type, is, names] : kFields)
        if (contains(names, name) && !(value.*is)()) refuse(prefix + name, type, &value);
    }
  }
};

std::string runs_below(const std::string& directory) {
  std::vector<std::string> runs;
  for (const std::filesystem::path& path : paths_in(directory, /*optional=*/true))
    if (file_exists(RunDirectory(path).log())) runs.push_back(path);
  return runs.empty() ? "" : fmt::format("; it contains: {}", fmt::join(runs, " "));
}

std::string word(const ordered_json& event, const char* key) {
  const auto found = event.find(key);
  return found != event.end() && found->is_string() ? found->get<std::string>() : "";
}

// Returns a number from an event, or 0 if it is missing or null, which represents numbers that are not finite.
double number(const ordered_json& event, const char* key) {
  const auto found = event.find(key);
  return found != event.end() && found->is_number() ? found->get<double>() : 0;
}

// Returns the number as an integer, clamped to [-2^53, 2^53].
std::int64_t whole_number(const ordered_json& event, const char* key) {
  return std::int64_t(std::clamp(number(event, key), -double(kMostSteps), double(kMostSteps)));
}

RunSummary::Best scores_of(const ordered_json& event, const std::string& deciding) {
  RunSummary::Best scores{event.at("step").get<std::int64_t>(), {}, word(event, (deciding + "_signature").c_str())};
  for (const auto& [name, value] : event.items())
    if (value.is_number() && name != "step" && name != "seconds") scores.scores.emplace_back(name, value.get<double>());
  return scores;
}

// Returns true if a is better than b. A score that is not finite (null in the log) is worse than all others.
bool better(const RunSummary::Best& a, const RunSummary::Best& b, const RunSummary& run) {
  const double sign = run.smaller_is_better ? -1 : 1, score = sign * a.at(run.score), other = sign * b.at(run.score);
  if (std::isnan(other) && !std::isnan(score)) return true;
  return score > other || (!(score < other) && !std::isnan(score) && a.at("loss") < b.at("loss"));
}

void add_event(RunSummary& s, const ordered_json& e) {
  const std::string kind = e.at("event");
  s.steps = std::max(s.steps, whole_number(e, "step"));
  s.seconds += number(e, "seconds");
  if (kind == "start") {
    s.norm = word(e, "norm");
    s.norm_warmup = whole_number(e, "norm_warmup");
    if (e.contains("score")) s.score = word(e, "score");
    s.smaller_is_better = e.contains("smaller_is_better") && e["smaller_is_better"] == true;
    s.validated_on_test = word(e, "validated_on") == "test";
    s.parameters = whole_number(e, "parameters");
    s.outcome = "unfinished";
  } else if (kind == "end") {
    s.outcome = word(e, "outcome");
  } else if (kind == "diverged") {
    s.outcome = "diverged";
  } else if (kind == "not_finite") {
    ++s.failures;
  } else if (kind == "layers") {
    s.skips = 0;
    for (const auto& [site, values] : e.at("normalizers").items()) {
      s.skips += whole_number(values, "skips");
      s.norm_passes = std::max(s.norm_passes, whole_number(values, "iterations"));
    }
  } else if (kind == "validate") {
    const RunSummary::Best now = scores_of(e, s.score);
    if (!s.best || s.validated_on_test || better(now, *s.best, s)) s.best = now;
  }
}

// Returns the absolute path: in /home/a, "/home/a/un" for "un" and for "b/../un/".
std::string whole_path(const std::string& path) {
  const auto normal = std::filesystem::absolute(path + "/").lexically_normal();  // the slash makes "." work, too
  return "/" + normal.parent_path().relative_path().string();
}

std::string shortest_name(const std::vector<std::string>& paths, const std::string& path) {
  for (std::size_t at = path.size(); at > 0;) {
    at = path.rfind('/', at - 1);
    const auto ends_so = [ending = path.substr(at)](const std::string& other) { return other.ends_with(ending); };
    if (std::ranges::count_if(paths, ends_so) == 1) return path.substr(at + 1);
  }
  return path.substr(1);
}

}  // namespace

RunLog read_run_log(const std::string& run) {
  const std::string path = RunDirectory(run).log();
  if (!file_exists(path)) throw FileError(run, "is not a run (no log.jsonl)" + runs_below(run));
  RunLog log{run, distinct_names({run})[0], {}};
  read_lines_of(path, [&](const std::string& line, bool ended) {
    if (!ended) return;
    const std::string where = fmt::format("line {} ", log.events.size() + 1);
    log.events.push_back(parse_ordered_json(line, path, where));
    EventCheck{path, where}(log.events.back());
  });
  return log;
}

std::vector<RunLog> read_run_logs(const std::vector<std::string>& runs) {
  const std::vector<std::string> names = distinct_names(runs);
  std::vector<RunLog> logs;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    logs.push_back(read_run_log(runs[i]));
    logs.back().name = names[i];
  }
  return logs;
}

double RunSummary::Best::at(const std::string& name) const {
  const auto found = std::ranges::find_if(scores, [&](const auto& score) { return score.first == name; });
  return found == scores.end() ? NAN : found->second;
}

RunSummary summary_of(const RunLog& log) {
  RunSummary summary;
  summary.name = log.name;
  for (const ordered_json& event : log.events) add_event(summary, event);
  return summary;
}

ordered_json summary_json(const RunSummary& s) {
  ordered_json json{{"name", s.name},         {"norm", s.norm},       {"parameters", s.parameters},
                    {"steps", s.steps},       {"outcome", s.outcome}, {"skips", s.skips},
                    {"failures", s.failures}, {"seconds", s.seconds}, {"score", s.score}};
  if (s.validated_on_test) json["validated_on"] = "test";
  if (s.in_warmup()) json["in_warmup"] = true;
  if (!s.best) return json;
  json["best"] = {{"step", s.best->step}};
  for (const auto& [name, value] : s.best->scores) json["best"][name] = value;
  json["best"]["signature"] = s.best->signature;
  return json;
}

std::vector<std::string> distinct_names(const std::vector<std::string>& paths) {
  std::vector<std::string> all;
  for (const std::string& path : paths) {
    const std::string whole = whole_path(path);
    FOLDGRAD_CHECK(whole != "/", "runs: {} is not a run directory", path);
    FOLDGRAD_CHECK(!contains(all, whole), "runs: each run must be given only once, got {} twice", path);
    all.push_back(whole);
  }
  std::vector<std::string> names;
  for (const std::string& path : all) names.push_back(shortest_name(all, path));
  return names;
}

std::string text_or_nothing(const std::string& path) try { return read_file(path); } catch (const FileError&) {
  return "";
}

// Does not use read_config(), since this function must also read runs of versions with other keys.
nlohmann::ordered_json settings_of(const std::string& run) {
  const std::string path = RunDirectory(run).config();
  try {
    nlohmann::ordered_json settings = nlohmann::ordered_json::object();
    const toml::table table = parse_toml(text_or_nothing(path), path);
    for (const auto& [key, value] : values_below(table)) settings[key] = text_of(*value);
    return settings;
  } catch (const ConfigError& e) {
    throw FileError(path, std::string("is not TOML: ") + e.what());
  }
}

}  // namespace foldgrad
