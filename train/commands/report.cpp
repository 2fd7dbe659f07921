// foldgrad report and foldgrad compare: present the results of runs.
#include "train/reports/report.h"

#include <cerrno>

#include "engine/files/atomic_file.h"
#include "train/commands/command.h"
#include "train/runs/directory.h"
#include "train/system/child_process.h"
#include "train/system/streams.h"

namespace foldgrad {
namespace {

struct ReportOptions {
  std::vector<std::string> runs;
  std::string out;
  bool open = false;
};

// Opens a page. A failure is only a warning, since the page has been written.
void open_page(const std::string& path) {
  const ChildResult opened = run_child({"xdg-open", path}, /*quiet=*/true);
  if (opened.error == ENOENT) {
    say("warning: --open: there is no program xdg-open (apt-get install xdg-utils)\n");
  } else if (!opened.succeeded()) {
    say("warning: --open: xdg-open could not show {}\n", path);
  }
}

Answer report(const ReportOptions& o) {
  const std::string out = !o.out.empty()       ? o.out
                          : o.runs.size() == 1 ? RunDirectory(o.runs[0]).report()
                                               : "report.html";
  write_file_atomically(out, report_html(read_run_logs(o.runs)));
  if (o.open) open_page(out);
  return {out + "\n"};
}

Answer compare(const std::vector<std::string>& runs) {
  const std::vector<RunLog> logs = read_run_logs(runs);
  std::vector<RunSummary> summaries;
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const RunLog& log : logs) {
    summaries.push_back(summary_of(log));
    all.push_back(summary_json(summaries.back()));
    all.back()["settings"] = settings_of(log.path);
  }
  const std::string differences = differences_table(logs);
  return {comparison_table(summaries) + (differences.empty() ? "" : "\n") + differences, all};
}

}  // namespace

Action add_report(CLI::App& command) {
  const auto options = std::make_shared<ReportOptions>();
  command.add_option("RUN", options->runs, "Directories of runs")->required();
  command.add_option("-o,--out,--output", options->out,
                     "HTML file to write [RUN/report.html; for several runs, report.html]");
  command.add_flag("--open", options->open, "Open the page in the browser with xdg-open");
  return [options] { return report(*options); };
}

Action add_compare(CLI::App& command) {
  const auto runs = std::make_shared<std::vector<std::string>>();
  command.add_option("RUN", *runs, "Directories of runs")->required();
  add_json_option(command);
  return [runs] { return compare(*runs); };
}

}  // namespace foldgrad
