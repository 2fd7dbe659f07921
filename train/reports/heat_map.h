// Heat maps as pictures.
#pragma once
#include <string>
#include <vector>

namespace foldgrad {

struct HeatMap {
  std::string title, x_label, y_label;
  std::vector<std::vector<double>> cells;  // [y][x], counted from 1; mostly in [0, 1], NaN where there is none
};

// Returns an SVG file, y upwards, in which each cell has its value as a tooltip.
std::string heat_map(const HeatMap& map);

}  // namespace foldgrad
