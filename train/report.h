// A run's, or several runs', log as a page and as a table.
#pragma once
#include "train/plot.h"
#include "train/run_log.h"

namespace foldgrad {

// What a report draws: with several runs, one curve each in the plots of scores, then the plots of layers run by run.
std::vector<Plot> report_plots(const std::vector<RunLog>& runs);

// One HTML file that needs no other: tables, and plots where gnuplot is installed.
std::string report_html(const std::vector<RunLog>& runs);

// Columns of words: one line for each run.
std::string comparison_table(const std::vector<RunSummary>& runs);

}  // namespace foldgrad
