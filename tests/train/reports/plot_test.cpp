#include "train/reports/plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "tests/engine/error_message.h"
#include "tests/engine/files/temporary_directory.h"

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

// Three pictures of 640 x 360 in two columns; the third is a heat map of two colours.
TEST(Plot, IntoFiles) {
  if (std::system("gnuplot --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no gnuplot here";
  const TemporaryDirectory files;
  const Plot curve{"one", "x", "y", false, {{"a", {{1, 2}}}}};
  Plot map{"map", "x", "y", false, {}};
  map.heat_map = {{0, 1}, {1, NAN}};
  draw_into(files / "a.png", {curve, curve, map}, 2);
  const std::string png = read_bytes(files / "a.png");
  ASSERT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
  const auto number = [&](std::size_t at) {
    return 256 * int(std::uint8_t(png[at + 2])) + int(std::uint8_t(png[at + 3]));
  };
  EXPECT_EQ(number(16), 2 * 640);
  EXPECT_EQ(number(20), 2 * 360);
  draw_into(files / "a.svg", {curve, curve, map}, 2);
  const std::string svg = read_bytes(files / "a.svg");
  EXPECT_EQ(svg.substr(svg.find("viewBox"), 23), "viewBox=\"0 0 1280 720\">");
  for (const char* colour : {"rgb(  0,   0,   4)", "rgb(252, 253, 191)"})
    EXPECT_NE(svg.find(colour), std::string::npos) << colour;
}

TEST(Plot, NothingIsDrawnWithoutGnuplot) {
  const TemporaryDirectory files;
  const std::string path = std::getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  const Plot plot{"a", "x", "y", false, {}};
  EXPECT_TRUE(draw({plot}).empty());
  for (const char* name : {"a.svg", "a.png"}) {
    EXPECT_EQ(message<std::runtime_error>([&] { draw_into(files / name, {plot}, 1); }),
              "plots need the program gnuplot (apt-get install gnuplot-nox)");
    EXPECT_FALSE(std::filesystem::exists(files / name));
  }
  setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(message<std::invalid_argument>([&] { draw_into("a.pdf", {plot}, 1); }),
            "plots are files that end with .svg or .png, got a.pdf");
}

}  // namespace
}  // namespace foldgrad::testing
