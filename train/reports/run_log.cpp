#include "train/reports/run_log.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>

#include "engine/check.h"
#include "engine/files/file.h"
#include "train/config/given.h"
#include "train/runs/directory.h"

namespace foldgrad {

using nlohmann::ordered_json;

std::vector<const ordered_json*> RunLog::of_kind(const std::string& event) const {
  std::vector<const ordered_json*> found;
  for (const ordered_json& e : events)
    if (e.at("event") == event) found.push_back(&e);
  return found;
}

namespace {

bool is_object(const ordered_json& object, const char* key) { return object.contains(key) && object[key].is_object(); }

// Returns true for an event with the fields that all readers of a log rely on; others may be missing, or null.
bool is_event(const ordered_json& e) {
  if (!e.is_object() || !e.contains("event") || !e["event"].is_string()) return false;
  if (!e.contains("step") || !e["step"].is_number_integer()) return false;
  if (e["event"] != "layers") return true;
  if (!is_object(e, "gradient_norms") || !is_object(e, "normalizers")) return false;
  return std::all_of(e["normalizers"].begin(), e["normalizers"].end(),
                     [](const auto& site) { return site.is_object(); });
}

}  // namespace

RunLog read_run_log(const std::string& run) {
  const std::string path = RunDirectory(run).log(), text = read_file(path);
  RunLog log{run, distinct_names({run})[0], {}};
  std::size_t begin = 0;
  for (std::size_t line = 1, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1, ++line) {
    ordered_json event = ordered_json::parse(text.begin() + std::ptrdiff_t(begin), text.begin() + std::ptrdiff_t(end),
                                             nullptr, /*allow_exceptions=*/false);
    if (!is_event(event)) throw FileError(path, fmt::format("line {} is no event", line));
    log.events.push_back(std::move(event));
  }
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

namespace {

std::string word(const ordered_json& event, const char* key) {
  const auto found = event.find(key);
  return found != event.end() && found->is_string() ? found->get<std::string>() : "";
}

RunSummary::Best scores_of(const ordered_json& event, const std::string& deciding) {
  RunSummary::Best scores{event.at("step").get<std::int64_t>(), {}, word(event, (deciding + "_signature").c_str())};
  for (const auto& [name, value] : event.items())
    if (value.is_number() && name != "step" && name != "seconds") scores.scores.emplace_back(name, value.get<double>());
  return scores;
}

// A score that is not finite, null in the log, is worse than all others.
bool better(const RunSummary::Best& a, const RunSummary::Best& b, const std::string& deciding) {
  const double score = a.at(deciding), other = b.at(deciding);
  if (std::isnan(other) && !std::isnan(score)) return true;
  return score > other || (!(score < other) && !std::isnan(score) && a.at("loss") < b.at("loss"));
}

void add_event(RunSummary& s, const ordered_json& e) {
  const std::string kind = e.at("event");
  s.steps = std::max(s.steps, std::int64_t(number(e, "step", 0)));
  s.seconds += number(e, "seconds", 0);
  if (kind == "start") {
    s.norm = word(e, "norm");
    if (e.contains("score")) s.score = word(e, "score");
    s.validated_on_test = word(e, "validated_on") == "test";
    s.parameters = std::int64_t(number(e, "parameters", 0));
    s.outcome = "unfinished";
  } else if (kind == "end") {
    s.outcome = word(e, "outcome");
  } else if (kind == "diverged") {
    s.outcome = "diverged";
  } else if (kind == "not_finite") {
    ++s.failures;
  } else if (kind == "layers") {
    s.skips = 0;
    for (const auto& [site, values] : e.at("normalizers").items()) s.skips += std::int64_t(number(values, "skips", 0));
  } else if (kind == "validate") {
    const RunSummary::Best now = scores_of(e, s.score);
    if (!s.best || s.validated_on_test || better(now, *s.best, s.score)) s.best = now;
  }
}

}  // namespace

double number(const ordered_json& event, const char* key, double otherwise) {
  const auto found = event.find(key);
  return found != event.end() && found->is_number() ? found->get<double>() : otherwise;
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
  if (!s.best) return json;
  json["best"] = {{"step", s.best->step}};
  for (const auto& [name, value] : s.best->scores) json["best"][name] = value;
  json["best"]["signature"] = s.best->signature;
  return json;
}

namespace {

using Parts = std::vector<std::string>;

Parts parts_of(const std::string& path) {
  const auto whole = std::filesystem::absolute(path + "/").lexically_normal();  // so that "." has a name, too
  Parts parts;
  for (const auto& part : whole.relative_path())
    if (!part.empty()) parts.push_back(part.string());
  return parts;
}

bool ends_with(const Parts& path, const Parts& ending) {
  return path.size() >= ending.size() && std::equal(ending.rbegin(), ending.rend(), path.rbegin());
}

std::string shortest_name(const std::vector<Parts>& paths, std::size_t self) {
  const Parts& path = paths[self];
  Parts name;
  const auto shared = [&] {
    for (std::size_t i = 0; i < paths.size(); ++i)
      if (i != self && ends_with(paths[i], name)) return true;
    return false;
  };
  do name.insert(name.begin(), path[path.size() - 1 - name.size()]);
  while (name.size() < path.size() && shared());
  std::string text;
  for (const std::string& part : name) text += (text.empty() ? "" : "/") + part;
  return text;
}

}  // namespace

std::vector<std::string> distinct_names(const std::vector<std::string>& paths) {
  std::vector<Parts> all;
  for (const std::string& path : paths) {
    all.push_back(parts_of(path));
    FOLDGRAD_CHECK(!all.back().empty(), "runs: {} is no directory of a run", path);
    FOLDGRAD_CHECK(std::find(all.begin(), std::prev(all.end()), all.back()) == std::prev(all.end()),
                   "runs: each must be given once, got {} twice", path);
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < all.size(); ++i) names.push_back(shortest_name(all, i));
  return names;
}

std::string text_or_nothing(const std::string& path) try { return read_file(path); } catch (const FileError&) {
  return "";
}

// Not through read_config(): runs of other versions, which know other keys, are to be seen too.
nlohmann::ordered_json settings_of(const std::string& run) {
  const std::string path = RunDirectory(run).config();
  try {
    nlohmann::ordered_json settings = nlohmann::ordered_json::object();
    const toml::table table = toml::parse(text_or_nothing(path));
    for (const auto& [key, value] : values_below(table)) settings[key] = text_of(*value);
    return settings;
  } catch (const toml::parse_error& e) {
    throw FileError(path, std::string("is no TOML: ") + std::string(e.description()));
  }
}

}  // namespace foldgrad
