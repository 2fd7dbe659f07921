# The template of `foldgrad report`: train/reports/page/*, and Chart.js if it was found, as one string of C++.
set(page ${PROJECT_SOURCE_DIR}/train/reports/page)
file(GLOB parts CONFIGURE_DEPENDS ${page}/*.html ${page}/*.css ${page}/*.js)
set(template ${PROJECT_BINARY_DIR}/report/report_template.cpp)
set(chart_js "")
if(foldgrad_have_chart_js)
  set(chart_js ${foldgrad_chart_js})
endif()
add_custom_command(OUTPUT ${template}
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${page} -DCHART_JS=${chart_js} -DOUTPUT=${template}
          -P ${PROJECT_SOURCE_DIR}/cmake/write_report_template.cmake
  DEPENDS ${parts} ${chart_js} ${PROJECT_SOURCE_DIR}/cmake/write_report_template.cmake
  VERBATIM)
target_sources(foldgrad_train PRIVATE ${template})
