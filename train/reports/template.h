// The page of a report before it is filled in, made by cmake/write_report_template.cmake of the files in
// train/reports/page.
#pragma once
#include <string_view>

namespace foldgrad {

// Has {{title}}, twice, and {{data}}, the JSON of train/reports/report.h, each where HTML's text may stand.
extern const std::string_view kReportTemplate;

}  // namespace foldgrad
