// The logs of one or several runs as a page and as a table. The page is in train/reports/page/: report.html, its style,
// and the scripts that make tables and charts of report_data().
#pragma once
#include "train/reports/run_log.h"

namespace foldgrad {

// Returns the data of the page:
//   runs    for each the members of summary_json(), and
//             settings  text by key of its config.toml: {"train.lr": "0.0005", ...}; empty without a file
//             events    as in log.jsonl
//             files     [{title, text}]: those that exist of the last samples, config.toml, command.txt and env.json
//             exhibits  as in exhibits.json, if it exists: a list of tables of counts, a row and a column for each
//                       name, and of sheets of pictures
//                         {"title", "note", "matrix": {"names": [...], "counts": [[...], ...]}}
//                         {"title", "note", "pictures": [{"caption", "png", in base64}], "columns", may be absent}
//             recordings  as of recordings_json(), if there are any
//   groups  indices of runs that differ in train.seed and in no other setting: [[0, 1, 2]]
nlohmann::ordered_json report_data(const std::vector<RunLog>& runs);

// Returns a self-contained HTML file that needs no network. Without Chart.js in the build it has only tables.
std::string report_html(const std::vector<RunLog>& runs);

// Returns the page of other data in that form; runs need only be summaries with events. "grid" is optional, a table as
// rows of text: a head, then a row for each cell. "cell" of a run is then the index of its cell.
std::string report_page(const std::string& title, const nlohmann::ordered_json& data);

using Rows = std::vector<std::vector<std::string>>;

// Returns aligned columns: a line for each row, the first column to the left, the others to the right. All rows have
// the same number of columns.
std::string aligned(const Rows& rows);

// Returns aligned columns: a line for each run.
std::string comparison_table(const std::vector<RunSummary>& runs);

// Returns aligned columns: a line for each setting that differs between runs, a column for each run, "-" if its
// config.toml lacks the setting. Empty if all are equal.
std::string differences_table(const std::vector<RunLog>& runs);

}  // namespace foldgrad
