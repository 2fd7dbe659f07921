#include "train/reports/plot.h"

#include <gtest/gtest.h>

#include <algorithm>
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

// A line over them would be read as values.
TEST(Plot, GapsWhereNothingIsFinite) {
  if (std::system("gnuplot --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no gnuplot here";
  const auto stretches = [](const Plot& plot) {
    const std::string svg = draw({plot}).at(0);
    std::size_t n = 0;  // the curve's colour is nobody else's; a stretch begins with M
    for (std::size_t at = 0; (at = svg.find("<path stroke='rgb(  0, 114, 178)'", at)) != std::string::npos; ++at)
      n += std::size_t(
          std::count(svg.begin() + std::ptrdiff_t(at), svg.begin() + std::ptrdiff_t(svg.find("/>", at)), 'M'));
    return n;
  };
  std::vector<std::pair<double, double>> points;
  for (int i = 0; i < 100; ++i) points.emplace_back(i, 1 + i % 7);
  Plot plot{"one", "x", "y", true, {{"a", points}}};
  const std::size_t whole = stretches(plot);  // the curve, and its line in the key
  plot.series[0].points[50].second = NAN;
  EXPECT_EQ(stretches(plot), whole + 1);
  plot.series[0].points[20].second = -1;
  EXPECT_EQ(stretches(plot), whole + 2);
}

TEST(Plot, AGnuplotThatFailsIsNotMissing) {
  const TemporaryDirectory files;
  const std::string path = std::getenv("PATH");
  write_bytes(files / "gnuplot", "#!/bin/sh\nexit 1\n");
  std::filesystem::permissions(files / "gnuplot", std::filesystem::perms::owner_all);
  setenv("PATH", files.path().c_str(), 1);
  EXPECT_EQ(
      message<std::runtime_error>([&] {
        draw_into(files / "a.svg", {{"a", "x", "y", false, {}}}, 1);
      }),
      "gnuplot is there, but has failed to draw; it must be able to write SVG and PNG (apt-get install gnuplot-nox)");
  setenv("PATH", path.c_str(), 1);
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
