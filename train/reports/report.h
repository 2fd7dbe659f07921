// Presents the logs of one or several runs as a page and as tables. The page is in train/reports/page/: report.html,
// its style, and the scripts that make tables and charts from report_data().
#pragma once
#include "train/reports/run_log.h"

namespace foldgrad {

// Returns the data of the page:
//   runs    for each run the members of summary_json(), and
//             settings  its config.toml as text: {"train.lr": "0.0005", ...}; empty if there is none
//             events    as in log.jsonl
//             files     [{title, text}]: the last samples, config.toml, command.txt and env.json, if they exist
//             exhibits  the content of exhibits.json, if it exists: a list of tables and sheets. A table has a count
//                       for each pair of names, a sheet has pictures
//                         {"title", "note", "matrix": {"names": [...], "counts": [[...], ...]}}
//                         {"title", "note", "pictures": [{"caption", "png", in base64}], "columns", may be absent}
//             recordings  recordings_json(), if there are any
//   groups  lists of runs, by index, that differ only in train.seed: [[0, 1, 2]]
nlohmann::ordered_json report_data(const std::vector<RunLog>& runs);

// Returns a self-contained HTML file that needs no network. If the build lacks Chart.js, the page has only tables.
std::string report_html(const std::vector<RunLog>& runs);

using Rows = std::vector<std::vector<std::string>>;

// Returns a table as text, with a line for each row. The first column is aligned to the left, the others to the right.
// All rows must have the same number of columns.
std::string aligned(const Rows& rows);

// Returns an aligned table with a line for each run.
std::string comparison_table(const std::vector<RunSummary>& runs);

// Returns an aligned table with a line for each setting that differs between runs, and a column for each run. The entry
// is "-" if the run's config.toml lacks the setting. Returns an empty string if no setting differs.
std::string differences_table(const std::vector<RunLog>& runs);

}  // namespace foldgrad
