#include "train/reports/plot.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace foldgrad::testing {
namespace {

TEST(Plot, QuotesInNames) {
  if (std::system("gnuplot --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no gnuplot here";
  const auto pictures =
      draw({{"it's a 'title'\nx", "x", "y", true, {{"l'un", {{1, 2}, {2, 0}}}, {"l'autre", {{1, 3}}}}},
            {"none", "x", "y", false, {}}});
  ASSERT_EQ(pictures.size(), 2u);
  for (const char* text : {"it's a 'title' x", "l'un", "l'autre"})
    EXPECT_NE(pictures[0].find(text), std::string::npos) << text;
}

TEST(Plot, NothingIsDrawnWithoutGnuplot) {
  const std::string path = std::getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  EXPECT_TRUE(draw({{"a", "x", "y", false, {}}}).empty());
  setenv("PATH", path.c_str(), 1);
}

}  // namespace
}  // namespace foldgrad::testing
