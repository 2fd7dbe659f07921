#include <map>
#include <string_view>

#include "train/reports/report.h"
#include "train/system/printable.h"

namespace foldgrad {

// The page before it is filled in, made by cmake/write_report_template.cmake of the files in train/reports/page. It has
// {{title}}, twice, and {{data}}, the JSON of report.h, each where HTML's text may stand.
extern const std::string_view kReportTemplate;

namespace {

// JSON inside <script>, where a browser looks for </script> and <!-- only, not for entities: no < may be left. In JSON
// it stands in strings only, where \u003c means the same.
std::string for_script(const nlohmann::ordered_json& data) {
  std::string safe;
  for (const char c : data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace))
    safe += c == '<' ? "\\u003c" : std::string(1, c);
  return safe;
}

std::string title_of(const std::vector<RunLog>& runs) {
  std::string names;
  for (const RunLog& run : runs) names += (names.empty() ? "" : ", ") + run.name;
  return names;
}

// Fills in the values in one pass, so that they are not searched.
std::string filled(std::string_view page, const std::map<std::string_view, std::string>& values) {
  std::string text;
  for (std::size_t begin; (begin = page.find("{{")) != std::string_view::npos;) {
    const std::size_t end = page.find("}}", begin);
    text.append(page.substr(0, begin)).append(values.at(page.substr(begin + 2, end - begin - 2)));
    page.remove_prefix(end + 2);
  }
  return text.append(page);
}

}  // namespace

std::string report_page(const std::string& title, const nlohmann::ordered_json& data) {
  return filled(kReportTemplate, {{"title", in_markup(title)}, {"data", for_script(data)}});
}

std::string report_html(const std::vector<RunLog>& runs) { return report_page(title_of(runs), report_data(runs)); }

}  // namespace foldgrad
