// Line plots and heat maps, drawn by the program gnuplot.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace foldgrad {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // where y is not finite, the curve has a gap
};

struct Plot {
  std::string title, x_label, y_label;
  bool logarithmic = false;  // y; where it is not positive, curves have gaps
  std::vector<Series> series;
  std::vector<std::vector<double>> heat_map = {};  // in the place of series: [y][x], counted from 1; mostly in [0, 1]
};

// For each plot an <svg> element, to stand in HTML. Empty when there is no gnuplot here.
std::vector<std::string> draw(const std::vector<Plot>& plots);

// Whether draw_into() can write a file of this name: it ends with .svg or .png.
bool is_picture(const std::string& path);

// Draws them into one file, SVG or PNG as its name says, in rows of `columns`. Throws std::invalid_argument for another
// name, std::runtime_error where there is no gnuplot or it fails, FileError.
void draw_into(const std::string& path, const std::vector<Plot>& plots, std::size_t columns);

}  // namespace foldgrad
