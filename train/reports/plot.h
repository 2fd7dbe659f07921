// Line plots and heat maps, drawn by the program gnuplot.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace foldgrad {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // finite
};

struct Plot {
  std::string title, x_label, y_label;
  bool logarithmic = false;  // y; points that are not positive are left out
  std::vector<Series> series;
  std::vector<std::vector<double>> heat_map = {};  // in the place of series: [y][x], counted from 1; mostly in [0, 1]
};

// For each plot an <svg> element, to stand in HTML. Empty when there is no gnuplot here.
std::vector<std::string> draw(const std::vector<Plot>& plots);

// What draw() made as one picture, a file of its own: rows of `columns`.
std::string side_by_side(const std::vector<std::string>& pictures, std::size_t columns);

}  // namespace foldgrad
