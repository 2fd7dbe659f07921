// foldgrad report and foldgrad compare: what runs have come to.
#include "train/reports/report.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <memory>

#include "engine/files/atomic_file.h"
#include "train/commands/commands.h"
#include "train/reports/settings.h"
#include "train/reports/tensorboard.h"
#include "train/runs/directory.h"
#include "train/system/child_process.h"
#include "train/system/exit_code.h"
#include "train/system/streams.h"

namespace foldgrad {
namespace {

struct ReportOptions {
  std::vector<std::string> runs;
  std::string out, tensorboard;
  bool open = false, json = false;
};

// Only warns where it fails: the page has been written.
void open_page(const std::string& path) {
  const ChildResult opened = run_child({"xdg-open", path}, /*quiet=*/true);
  if (opened.error == ENOENT) {
    say("warning: --open: there is no program xdg-open (apt-get install xdg-utils)\n");
  } else if (!opened.succeeded()) {
    say("warning: --open: xdg-open could not show {}\n", path);
  }
}

int report(const ReportOptions& options) {
  std::string out = options.out;
  if (out.empty()) out = options.runs.size() == 1 ? RunDirectory(options.runs[0]).report() : "report.html";
  const std::vector<RunLog> logs = read_run_logs(options.runs);
  write_file_atomically(out, report_html(logs));
  fmt::print("{}\n", out);
  if (!options.tensorboard.empty())
    for (const RunLog& log : logs) fmt::print("{}\n", write_tensorboard(log, options.tensorboard));
  if (options.open) open_page(out);
  return kExitOk;
}

int compare(const ReportOptions& options) {
  const std::vector<RunLog> logs = read_run_logs(options.runs);
  std::vector<RunSummary> summaries;
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const RunLog& log : logs) {
    summaries.push_back(summary_of(log));
    all.push_back(summary_json(summaries.back()));
    all.back()["settings"] = settings_of(log.path);
  }
  const std::string differences = differences_table(logs);
  if (options.json)
    print_json(all);
  else
    fmt::print("{}{}{}", comparison_table(summaries), differences.empty() ? "" : "\n", differences);
  return kExitOk;
}

}  // namespace

Action add_report(CLI::App& command) {
  const auto options = std::make_shared<ReportOptions>();
  command.add_option("RUN", options->runs, "Directories of runs")->required();
  command.add_option("-o,--output", options->out, "HTML file [RUN/report.html; of several runs report.html]");
  command.add_option("--tensorboard", options->tensorboard,
                     "Also write event files for TensorBoard into this directory");
  command.add_flag("--open", options->open, "Show the page in the browser, with xdg-open");
  return [options] { return report(*options); };
}

Action add_compare(CLI::App& command) {
  const auto options = std::make_shared<ReportOptions>();
  command.add_option("RUN", options->runs, "Directories of runs")->required();
  command.add_flag("--json", options->json, "Print JSON");
  return [options] { return compare(*options); };
}

}  // namespace foldgrad
