#include "train/reports/plot.h"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <iterator>

#include "engine/check.h"
#include "engine/files/atomic_file.h"
#include "train/system/child_process.h"
#include "train/system/scratch_directory.h"

namespace foldgrad {
namespace {

constexpr int kWidth = 640, kHeight = 360;
// After Okabe and Ito, whose eight the colour-blind tell apart, but darker where white paper needs it.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#007f5f", "#a8458a",
                                    "#2c2c2c", "#b8860b", "#2f9fd8", "#7a7a00"};
constexpr std::size_t kMostMarks = 60;  // longer curves are lines alone, or marks would hide them

// In single quotes nothing is special to gnuplot but the quote, which is doubled, and the line's end.
std::string quoted(std::string text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\'') text.insert(i++, 1, '\'');
    if (static_cast<unsigned char>(text[i]) < ' ') text[i] = ' ';
  }
  return "'" + text + "'";
}

std::string heat_map_of(const Plot& plot) {
  std::string cells;
  for (std::size_t y = 0; y < plot.heat_map.size(); ++y)
    for (std::size_t x = 0; x < plot.heat_map[y].size(); ++x)
      cells += fmt::format("{} {} {}\n", x + 1, y + 1, plot.heat_map[y][x]);
  // As rectangles: gnuplot would embed an image of one pixel a cell, which viewers blur.
  return fmt::format(
      "set cbrange [0:1]\nset palette defined (0 '#000004', 0.25 '#51127c', 0.5 '#b73779', 0.75 '#fc8961', 1 '#fcfdbf')"
      "\nset autoscale fix\n$cells << END\n{}END\nplot $cells with image pixels notitle\n",
      cells);
}

// Behind the terminal and the output.
std::string script_of(const Plot& plot) {
  std::string s = fmt::format("set title {}\nset xlabel {}\nset ylabel {}\n", quoted(plot.title), quoted(plot.x_label),
                              quoted(plot.y_label));
  if (!plot.heat_map.empty()) return s + heat_map_of(plot);
  if (plot.logarithmic) s += "set logscale y\n";
  s += plot.series.size() > 4 ? "set key outside right font ',8' spacing 0.8\n" : "set key above\n";
  s += "set grid lc '#dddddd'\n";
  std::string curves;
  for (std::size_t k = 0; k < plot.series.size(); ++k) {
    const Series& series = plot.series[k];
    std::string points;
    for (const auto& [x, y] : series.points)
      points += std::isfinite(y) && (!plot.logarithmic || y > 0) ? fmt::format("{} {}\n", x, y) : "\n";
    if (points.find_first_not_of('\n') == std::string::npos) continue;
    s += fmt::format("$data{} << END\n{}END\n", k, points);
    // A single point has no line. When the colours have come to an end, dashes tell curves apart.
    const bool marks = series.points.size() <= kMostMarks;
    curves += fmt::format("{}$data{} with {} lc rgb '{}' dt {} title {}", curves.empty() ? "" : ", ", k,
                          marks ? "linespoints pt 7 ps 0.3" : "lines", kColours[k % std::size(kColours)],
                          k / std::size(kColours) + 1, quoted(series.name));
  }
  // Without any point gnuplot would refuse; an empty axis says as much.
  return s + (curves.empty() ? "plot [0:1][0:1] -1 notitle\n" : "plot " + curves + "\n");
}

bool run_gnuplot(const ScratchDirectory& scratch, const std::string& script) {
  write_file_atomically(scratch / "script", script);
  return run_child({"gnuplot", scratch / "script"}, /*quiet=*/true).succeeded();
}

// Rows of `columns`, as one picture that is a file of its own.
std::string side_by_side(const std::vector<std::string>& pictures, std::size_t columns) {
  const std::size_t rows = (pictures.size() + columns - 1) / columns;
  std::string all = fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\">\n", columns * kWidth,
                                rows * kHeight);
  for (std::size_t i = 0; i < pictures.size(); ++i)
    all += fmt::format("<svg x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{}\n", i % columns * kWidth,
                       i / columns * kHeight, kWidth, kHeight, pictures[i].substr(std::string_view("<svg").size()));
  return all + "</svg>\n";
}

// Empty when gnuplot cannot do it. It may have been built without Cairo.
std::string drawn_png(const std::vector<Plot>& plots, std::size_t columns) {
  const ScratchDirectory scratch;
  const std::size_t rows = (plots.size() + columns - 1) / columns;
  std::string body;
  for (const Plot& plot : plots) body += "reset\n" + script_of(plot);
  for (const char* terminal : {"pngcairo", "png"}) {
    const std::string file = scratch / terminal;
    if (run_gnuplot(scratch,
                    fmt::format("set terminal {} size {},{} noenhanced background '#ffffff'\nset output {}\n"
                                "set multiplot layout {},{}\n{}unset multiplot\nunset output\n",
                                terminal, columns * kWidth, rows * kHeight, quoted(file), rows, columns, body)))
      return read_file(file);
  }
  return "";
}

}  // namespace

std::vector<std::string> draw(const std::vector<Plot>& plots) {
  const ScratchDirectory scratch;
  const auto file = [&](std::size_t i) { return scratch / fmt::format("{}.svg", i); };
  std::string script;
  for (std::size_t i = 0; i < plots.size(); ++i)
    script += fmt::format(
        "reset\nset terminal svg size {},{} dynamic noenhanced font 'sans-serif,12' background '#ffffff' name "
        "'plot{}'\n"
        "set output {}\n{}unset output\n",
        kWidth, kHeight, i, quoted(file(i)), script_of(plots[i]));
  if (!run_gnuplot(scratch, script)) return {};
  std::vector<std::string> pictures;
  for (std::size_t i = 0; i < plots.size(); ++i) try {
      const std::string svg = read_file(file(i));
      const std::size_t begin = svg.find("<svg");  // behind the XML declaration
      if (begin == std::string::npos || svg.find("</svg>") == std::string::npos) return {};
      pictures.push_back(svg.substr(begin));
    } catch (const FileError&) {
      return {};
    }
  return pictures;
}

bool is_picture(const std::string& path) { return path.ends_with(".svg") || path.ends_with(".png"); }

void draw_into(const std::string& path, const std::vector<Plot>& plots, std::size_t columns) {
  FOLDGRAD_CHECK(is_picture(path), "plots are files that end with .svg or .png, got {}", path);
  std::string file;
  if (path.ends_with(".png"))
    file = drawn_png(plots, columns);
  else if (const std::vector<std::string> pictures = draw(plots); !pictures.empty())
    file = side_by_side(pictures, columns);
  if (file.empty())
    throw std::runtime_error(run_child({"gnuplot", "--version"}, /*quiet=*/true).error == ENOENT
                                 ? "plots need the program gnuplot (apt-get install gnuplot-nox)"
                                 : "gnuplot is there, but has failed to draw; it must be able to write SVG and PNG "
                                   "(apt-get install gnuplot-nox)");
  write_file_atomically(path, file);
}

}  // namespace foldgrad
