#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "train/reports/report.h"
#include "train/system/printable.h"

namespace foldgrad {
namespace {

constexpr int kCell = 18, kMargin = 60;  // pixels
using Colour = std::array<double, 3>;
constexpr Colour kStops[] = {{0, 0, 4}, {81, 18, 124}, {183, 55, 121}, {252, 137, 97}, {252, 253, 191}};

std::string colour_of(double value) {
  const double place = std::clamp(value, 0.0, 1.0) * (std::size(kStops) - 1);
  const auto below = std::min(std::size_t(place), std::size(kStops) - 2);
  const auto mix = [&](int i) {
    const double t = place - double(below);
    return int(std::lround((1 - t) * kStops[below][i] + t * kStops[below + 1][i]));
  };
  return fmt::format("rgb({},{},{})", mix(0), mix(1), mix(2));
}

std::string text_at(int x, int y, const std::string& text, const std::string& more = "") {
  return fmt::format("<text x=\"{}\" y=\"{}\"{}>{}</text>\n", x, y, more, in_markup(text));
}

}  // namespace

std::string heat_map(const HeatMap& map) {
  const int rows = int(map.cells.size()), columns = rows > 0 ? int(map.cells[0].size()) : 0;
  const int width = columns * kCell + 2 * kMargin, height = rows * kCell + 2 * kMargin, bottom = height - kMargin;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"12\" text-anchor=\"middle\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n",
      width, height);
  svg += text_at(width / 2, kMargin / 2, map.title) + text_at(width / 2, height - 12, map.x_label);
  svg += text_at(16, height / 2, map.y_label, fmt::format(" transform=\"rotate(-90 16 {})\"", height / 2));
  for (int x = 0; x < columns; x += 5)
    svg += text_at(kMargin + x * kCell + kCell / 2, bottom + 16, std::to_string(x + 1));
  for (int y = 0; y < rows; y += 5) {
    const int top = bottom - (y + 1) * kCell;
    svg += text_at(kMargin - 14, top + 13, std::to_string(y + 1));
  }
  for (int y = 0; y < rows; ++y)
    for (int x = 0; x < columns; ++x) {
      const double value = map.cells[std::size_t(y)][std::size_t(x)];
      if (std::isnan(value)) continue;
      svg += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"><title>{}, {}: {:.4f}</title></rect>\n",
          kMargin + x * kCell, bottom - (y + 1) * kCell, kCell, kCell, colour_of(value), x + 1, y + 1, value);
    }
  return svg + "</svg>\n";
}

}  // namespace foldgrad
