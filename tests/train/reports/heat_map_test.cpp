#include "train/reports/heat_map.h"

#include <gtest/gtest.h>

#include <cmath>

namespace foldgrad::testing {
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// The first row is the lowest.
TEST(HeatMap, HasARectangleForEachCellWithAValue) {
  const std::string svg = heat_map({"a < b & c", "x", "y", {{0, 1, 0.375}, {1, NAN, -2}}});
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 174 156\"")) << svg;
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_TRUE(contains(svg, ">a &lt; b &amp; c</text>")) << svg;
  const auto cell = [&](int x, int y, const char* colour, const char* title) {
    return contains(svg, "<rect x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) +
                             "\" width=\"18\" height=\"18\" fill=\"" + colour + "\"><title>" + title + "</title>");
  };
  EXPECT_TRUE(cell(60, 78, "rgb(0,0,4)", "1, 1: 0.0000")) << svg;
  EXPECT_TRUE(cell(78, 78, "rgb(252,253,191)", "2, 1: 1.0000")) << svg;
  EXPECT_TRUE(cell(96, 78, "rgb(132,37,123)", "3, 1: 0.3750")) << svg;  // halfway from the second colour to the third
  EXPECT_TRUE(cell(60, 60, "rgb(252,253,191)", "1, 2: 1.0000")) << svg;
  EXPECT_TRUE(cell(96, 60, "rgb(0,0,4)", "3, 2: -2.0000")) << svg;
  EXPECT_FALSE(contains(svg, "2, 2: "));
}

}  // namespace
}  // namespace foldgrad::testing
