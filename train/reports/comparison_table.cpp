#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "train/reports/report.h"
#include "train/runs/progress.h"

namespace foldgrad {
namespace {

struct Column {
  std::string score, title;
  int decimals;
};

// Scores that have a customary name and number of decimals.
const std::vector<Column> kKnown{{"perplexity", "perplexity", 3},
                                 {"bits_per_character", "bits per character", 4},
                                 {"bleu", "BLEU", 2},
                                 {"tokenized_bleu", "tokenized BLEU", 2},
                                 {"chrf", "chrF2", 2},
                                 {"exact", "exact %", 1},
                                 {"top1", "top-1 %", 2},
                                 {"top5", "top-5 %", 2}};

// Returns a column for every score of any run, in the order of the logs. The loss has a column only if there is no
// perplexity.
std::vector<Column> columns_of(const std::vector<RunSummary>& runs) {
  std::vector<Column> columns;
  for (const RunSummary& run : runs) {
    if (!run.best) continue;
    for (const auto& [name, value] : run.best->scores) {
      const auto is = [&score = name](const Column& column) { return column.score == score; };
      if (name == "loss" && !std::isnan(run.best->at("perplexity"))) continue;
      if (std::ranges::any_of(columns, is)) continue;
      const auto known = std::ranges::find_if(kKnown, is);
      columns.push_back(known == kKnown.end() ? Column{name, name, 4} : *known);
    }
  }
  return columns;
}

// Returns the signatures of the deciding score, such as BLEU's settings: one line if all runs share a signature,
// otherwise a line for each signature with the names of its runs.
std::string signatures(const std::vector<RunSummary>& runs) {
  std::map<std::string, std::vector<std::string>> names;
  for (const RunSummary& run : runs)
    if (run.best && !run.best->signature.empty()) names[run.best->signature].push_back(run.name);
  std::string text;
  for (const auto& [signature, of] : names)
    text += names.size() == 1 ? fmt::format("signature: {}\n", signature)
                              : fmt::format("signature of {}: {}\n", fmt::join(of, ", "), signature);
  return text;
}

}  // namespace

std::string aligned(const Rows& rows) {
  std::vector<std::size_t> widths(rows[0].size(), 0);
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c)
      text += c == 0 ? fmt::format("{:<{}}", row[c], widths[c]) : fmt::format("  {:>{}}", row[c], widths[c]);
    text += "\n";
  }
  return text;
}

std::string comparison_table(const std::vector<RunSummary>& runs) {
  const std::vector<Column> columns = columns_of(runs);
  Rows rows{{"run", "normalizer", "parameters", "steps", "outcome", "best step"}};
  for (const Column& column : columns) rows[0].push_back(column.title);
  rows[0].insert(rows[0].end(), {"skips", "not finite", "time"});
  for (const RunSummary& s : runs) {
    std::vector<std::string> row{
        s.name,
        s.norm + (s.in_warmup() ? " (never left its warm-up)" : ""),
        std::to_string(s.parameters),
        std::to_string(s.steps),
        s.outcome,
        s.best ? fmt::format("{}{}", s.best->step, s.validated_on_test ? " (last)" : "") : "-"};
    for (const Column& column : columns) {
      const double value = s.best ? s.best->at(column.score) : NAN;
      row.push_back(std::isnan(value) ? "-" : fmt::format("{:.{}f}", value, column.decimals));
    }
    row.insert(row.end(), {std::to_string(s.skips), std::to_string(s.failures), duration_text(s.seconds)});
    rows.push_back(std::move(row));
  }
  return aligned(rows) + signatures(runs);
}

std::string differences_table(const std::vector<RunLog>& runs) {
  std::vector<nlohmann::ordered_json> settings;
  std::map<std::string, std::size_t> keys;  // number of runs that have each key
  for (const RunLog& run : runs) {
    settings.push_back(settings_of(run.path));
    for (const auto& [key, value] : settings.back().items()) ++keys[key];
  }
  Rows rows{{"setting"}};
  for (const RunLog& run : runs) rows[0].push_back(run.name);
  const auto family = [](const auto& of_run) { return of_run.value("model.family", ""); };
  const bool families = std::ranges::any_of(settings, [&](const auto& s) { return family(s) != family(settings[0]); });
  std::vector<std::string> of_some;  // keys that some runs lack, since their family has no such key
  for (const auto& [key, count] : keys) {
    if (families && count < runs.size()) {
      of_some.push_back(key);
      continue;
    }
    std::vector<std::string> row{key};
    for (const auto& of_run : settings) row.push_back(of_run.value(key, "-"));
    if (std::ranges::any_of(row.begin() + 1, row.end(), [&](const auto& value) { return value != row[1]; }))
      rows.push_back(std::move(row));
  }
  const std::string rest =
      of_some.empty() ? "" : fmt::format("keys that are missing in some runs: {}\n", fmt::join(of_some, " "));
  return (rows.size() == 1 ? "" : aligned(rows)) + rest;
}

}  // namespace foldgrad
