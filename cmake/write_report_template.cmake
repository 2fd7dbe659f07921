# cmake -DSOURCE=train/reports/page -DCHART_JS=FILE -DOUTPUT=FILE -P write_report_template.cmake: puts style and scripts
# into report.html, and that into a source file. The program fills in {{title}} and {{data}}. CHART_JS may be empty.
function(fill name content)
  string(REPLACE "{{${name}}}" "${content}" page "${page}")
  set(page "${page}" PARENT_SCOPE)
endfunction()

file(READ ${SOURCE}/report.html page)
file(READ ${SOURCE}/report.css style)
fill(style "${style}")
set(script "")
foreach(part elements tables exhibits curves charts heat traces page)  # the last one runs the others
  file(READ ${SOURCE}/${part}.js text)
  string(APPEND script "${text}")
endforeach()
fill(script "${script}")
set(library "")
if(CHART_JS)
  file(READ ${CHART_JS} library)
endif()
fill(chart_js "${library}")
file(WRITE ${OUTPUT} "// Generated from train/reports/page/ by cmake/write_report_template.cmake.
#include <string_view>

namespace foldgrad {

extern const std::string_view kReportTemplate;
const std::string_view kReportTemplate = R\"foldgrad(${page})foldgrad\";

}  // namespace foldgrad
")
