#include <fmt/format.h>

#include <algorithm>

#include "train/reports/report.h"
#include "train/runs/progress.h"

namespace foldgrad {

std::string comparison_table(const std::vector<RunSummary>& runs) {
  std::vector<std::vector<std::string>> rows{{"run", "normalizer", "parameters", "steps", "outcome", "best step",
                                              "perplexity", "BLEU", "signature", "chrF2", "skips", "not finite",
                                              "time"}};
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
