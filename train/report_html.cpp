#include <fmt/format.h>

#include "engine/file.h"
#include "train/progress.h"
#include "train/report.h"
#include "train/run_directory.h"

namespace foldgrad {
namespace {

using nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;  // the first is the head

constexpr const char* kStyle =
    "body{font:15px/1.4 sans-serif;max-width:84em;margin:1em auto;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;margin:1em 0}td,th{border:1px solid #ccc;padding:.2em .6em;text-align:right}"
    "td:first-child,th:first-child{text-align:left}th{background:#f2f2f2}"
    ".plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(34em,1fr));gap:1em}"
    ".plots svg{width:100%;height:auto;border:1px solid #ddd}pre{background:#f7f7f7;padding:1em;overflow-x:auto}";

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '&')
      safe += "&amp;";
    else if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else
      safe += c;
  }
  return safe;
}

std::string html_table(const Rows& rows) {
  std::string html = "<table>\n";
  for (std::size_t r = 0; r < rows.size(); ++r) {
    html += "<tr>";
    for (const std::string& cell : rows[r]) html += fmt::format("<{0}>{1}</{0}>", r == 0 ? "th" : "td", escaped(cell));
    html += "</tr>\n";
  }
  return html + "</table>\n";
}

std::string shown(const ordered_json& object, const char* key, int decimals) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return "";
  if (found->is_number_float()) return fmt::format("{:.{}f}", found->get<double>(), decimals);
  return found->is_string() ? found->get<std::string>() : found->dump();
}

Rows summary_rows(const std::vector<RunSummary>& runs) {
  Rows rows{{"run", "normalizer", "parameters", "steps", "outcome", "best step", "perplexity", "BLEU", "signature",
             "chrF2", "skips", "not finite", "time"}};
  for (const RunSummary& s : runs) {
    const auto score = [&](auto member, int decimals) {
      return s.best ? fmt::format("{:.{}f}", (*s.best).*member, decimals) : "-";
    };
    rows.push_back({s.name, s.norm, std::to_string(s.parameters), std::to_string(s.steps), s.outcome,
                    s.best ? std::to_string(s.best->step) : "-", score(&RunSummary::Score::perplexity, 3),
                    score(&RunSummary::Score::bleu, 2), s.best ? s.best->signature : "-",
                    score(&RunSummary::Score::chrf, 2), std::to_string(s.skips), std::to_string(s.failures),
                    duration_text(s.seconds)});
  }
  return rows;
}

std::string validations(const RunLog& run) {
  Rows rows{{"step", "loss", "perplexity", "BLEU", "tokenized BLEU", "chrF2", "exact %"}};
  for (const ordered_json* e : run.of_kind("validate"))
    rows.push_back({shown(*e, "step", 0), shown(*e, "loss", 4), shown(*e, "perplexity", 3), shown(*e, "bleu", 2),
                    shown(*e, "tokenized_bleu", 2), shown(*e, "chrf", 2), shown(*e, "exact", 1)});
  return rows.size() == 1 ? "" : "<h3>Validation</h3>\n" + html_table(rows);
}

std::string normalizers(const RunLog& run) {
  const auto layers = run.of_kind("layers");
  if (layers.empty() || layers.back()->at("normalizers").empty()) return "";
  Rows rows{{"normalizer", "iterations", "skips", "least running variance", "greatest", "AM / GM"}};
  for (const auto& [site, values] : layers.back()->at("normalizers").items())
    rows.push_back({site, shown(values, "iterations", 0), shown(values, "skips", 0), shown(values, "least_variance", 5),
                    shown(values, "greatest_variance", 3), shown(values, "am_over_gm", 4)});
  return fmt::format("<h3>Normalizers at step {}</h3>\n", shown(*layers.back(), "step", 0)) + html_table(rows);
}

std::string messages(const RunLog& run) {
  Rows rows{{"what", "step", "message"}};
  for (const char* kind : {"not_finite", "diverged"})
    for (const ordered_json* e : run.of_kind(kind))
      rows.push_back({kind, shown(*e, "step", 0), shown(*e, "message", 0)});
  return rows.size() == 1 ? "" : "<h3>Not finite</h3>\n" + html_table(rows);
}

std::string file_in(const std::string& title, const std::string& path) try {
  return fmt::format("<details><summary>{}</summary><pre>{}</pre></details>\n", title, escaped(read_file(path)));
} catch (const FileError&) {
  return "";
}

std::string details(const RunLog& run) {
  const RunDirectory files(run.path);
  std::string html = "<h2>" + escaped(run.name) + "</h2>\n" + validations(run) + normalizers(run) + messages(run);
  if (const auto validated = run.of_kind("validate"); !validated.empty())
    html += file_in("Samples of the last validation", files.sample(validated.back()->at("step")));
  return html + file_in("config.toml", files.config()) + file_in("env.json", files.environment());
}

}  // namespace

std::string report_html(const std::vector<RunLog>& runs) {
  std::vector<RunSummary> summaries;
  std::string names;
  for (const RunLog& run : runs) {
    summaries.push_back(summary_of(run));
    names += (names.empty() ? "" : ", ") + run.name;
  }
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title><style>{1}</style>"
      "</head><body>\n<h1>{0}</h1>\n",
      escaped(names), kStyle);
  html += html_table(summary_rows(summaries));
  const std::vector<std::string> pictures = draw(report_plots(runs));
  if (pictures.empty())
    html +=
        "<p>There are no plots, since the program gnuplot was not found. Install it (Debian: gnuplot-nox) and call "
        "<code>foldgrad report</code> again.</p>\n";
  html += "<div class=\"plots\">\n";
  for (const std::string& picture : pictures) html += "<div>" + picture + "</div>\n";
  html += "</div>\n";
  for (const RunLog& run : runs) html += details(run);
  return html + "</body></html>\n";
}

std::string comparison_table(const std::vector<RunSummary>& runs) {
  const Rows rows = summary_rows(runs);
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

}  // namespace foldgrad
