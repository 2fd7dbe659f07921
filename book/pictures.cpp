// Draws the pictures of UN in docs/engine.md from runs of book/tiny.cpp:
//
//   g++ -std=c++20 -O2 -I. book/pictures.cpp -o pictures && ./pictures docs/pictures
#define main tiny_main
#include "book/tiny.cpp"
#undef main

#include <fstream>

namespace {

// The values of a layer's first channel in one iteration.
struct Iteration {
  double q, var_hat, arithmetic, geometric, distance, threshold, run_var;
  tiny::Window window;  // after the iteration
  bool active, skipped;
};

// Normalizes rows of 8 channels whose size varies between iterations. At iteration `outlier` they are 5 times as large.
std::vector<Iteration> history(int iterations, int warmup, bool filtration, int outlier) {
  tiny::Random random(4);
  tiny::UnifiedNorm un{.C = 8, .warmup = warmup, .filtration = filtration};
  std::vector<Iteration> all;
  for (int t = 1; t <= iterations; ++t) {
    tiny::Tensor x(32, un.C);
    const double size = std::exp(tiny::uniform(random, -0.25, 0.25)) * (t == outlier ? 5 : 1);
    for (int i = 0; i < x.size(); ++i) x[i] = size * (1 + 0.2 * (i % un.C)) * tiny::uniform(random, -2, 2);
    const tiny::UnifiedNorm before = un;
    tiny::Tape tape;
    const tiny::Var input = tiny::variable(x), y = tiny::unified_norm(tape, input, un);
    Iteration now{};
    for (int r = 0; r < x.rows; ++r) now.q += x(r, 0) * x(r, 0) / x.rows;
    now.window = column(un.win_sq, 0);
    tiny::Window with_q = column(before.win_sq, 0);
    with_q[t % un.M] = now.q;
    now.arithmetic = tiny::arithmetic_mean(with_q);
    now.geometric = tiny::geometric_mean(with_q);
    now.distance = now.arithmetic - now.geometric;
    now.threshold = un.M * tiny::variance_of_roots(before.win_sq.values);
    now.var_hat = x[0] / y->value[0] * (x[0] / y->value[0]) - un.eps;  // y = x / sqrt(var_hat + eps)
    now.run_var = un.run_var[0];
    now.active = t >= un.warmup && t > un.M;
    now.skipped = un.skips > before.skips;
    all.push_back(now);
  }
  return all;
}

class Svg {
 public:
  Svg(const std::string& path, int width, int height) : file_(path) {
    put("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
        "font-size=\"12\">\n<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n",
        width, height, width, height);
  }
  ~Svg() { file_ << "</svg>\n"; }

  void text(double x, double y, const std::string& what, const char* fill = "#333", const char* anchor = "start") {
    put("<text x=\"%.1f\" y=\"%.1f\" fill=\"%s\" text-anchor=\"%s\">%s</text>\n", x, y, fill, anchor, what.c_str());
  }
  void box(double x, double y, double width, double height, const char* fill, const char* stroke = "none") {
    put("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" stroke=\"%s\"/>\n", x, y, width, height,
        fill, stroke);
  }
  void line(const std::vector<std::pair<double, double>>& points, const char* stroke, double width) {
    put("<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\" points=\"", stroke, width);
    for (const auto& [x, y] : points) put("%.1f,%.1f ", x, y);
    file_ << "\"/>\n";
  }
  void dot(double x, double y, const char* fill) {
    put("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x, y, fill);
  }

 private:
  template <class... Arguments>
  void put(const char* format, Arguments... arguments) {
    char buffer[512];
    std::snprintf(buffer, sizeof buffer, format, arguments...);
    file_ << buffer;
  }
  std::ofstream file_;
};

std::string number(double v) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, v < 10 ? "%.2f" : "%.1f", v);
  return buffer;
}

// Draws the window as a ring of four slots, one column per iteration.
void draw_window(const std::string& path) {
  const std::vector<Iteration> all = history(15, 6, true, 11);
  Svg svg(path, 860, 246);
  const double left = 90, cell = 50;
  const auto label = [&](double y, const char* what) { svg.text(left - 8, y, what, "#333", "end"); };
  label(24, "iteration t");
  for (int k = 0; k < 4; ++k) label(54 + 26 * k, ("slot " + std::to_string(k)).c_str());
  label(172, "var_hat");
  for (int i = 0; i < int(all.size()); ++i) {
    const Iteration& now = all[i];
    const double x = left + cell * i, middle = x + cell / 2;
    const int t = i + 1;
    svg.text(middle, 24, std::to_string(t), "#333", "middle");
    for (int k = 0; k < 4; ++k) {
      const char* fill = k != t % 4 ? "#f3f3f3" : now.skipped ? "#f4b183" : "#bdd7ee";
      svg.box(x, 36 + 26 * k, cell - 3, 24, fill, "#999");
      svg.text(middle - 1, 53 + 26 * k, number(now.window[k]), "#333", "middle");
    }
    svg.text(middle, 172, number(now.var_hat), now.active && !now.skipped ? "#1f4e79" : "#c55a11", "middle");
  }
  svg.text(left, 198, "blue: q goes to slot t mod 4, and var_hat is the geometric mean of the column", "#1f4e79");
  svg.text(left, 216, "orange: var_hat is q alone, before the end of the warm-up, t = 6, and at the outlier, t = 11.",
           "#c55a11");
  svg.text(left, 234, "The outlier's slot gets run_var in place of q.", "#c55a11");
}

// Draws values of all iterations as lines over t, on a logarithmic scale.
struct Chart {
  Svg& svg;
  double top, height, low, high;
  int first, last;

  double x(int t) const { return 60 + 640.0 * (t - first) / (last - first); }
  double y(double v) const { return top + height * (1 - std::log(v / low) / std::log(high / low)); }
  void axes(const std::vector<double>& ticks) const {
    for (double tick : ticks) {
      svg.line({{60, y(tick)}, {700, y(tick)}}, "#ddd", 1);
      svg.text(52, y(tick) + 4, number(tick), "#333", "end");
    }
    for (int t = first; t <= last; t += 5) svg.text(x(t), top + height + 18, std::to_string(t), "#333", "middle");
  }
  void curve(const std::vector<Iteration>& all, double Iteration::*value, const char* color, double width,
             const char* name) const {
    std::vector<std::pair<double, double>> points;
    for (int t = first; t <= last; ++t) points.push_back({x(t), y(all[t - 1].*value)});
    svg.line(points, color, width);
    svg.text(706, points.back().second + 4, name, color);
  }
};

void draw_means(const std::string& path) {
  const std::vector<Iteration> all = history(40, 5, false, 20);
  Svg svg(path, 820, 300);
  const Chart chart{svg, 20, 240, 0.5, 60, 5, 40};
  chart.axes({0.5, 1, 2, 5, 10, 20, 50});
  for (int t = chart.first; t <= chart.last; ++t) svg.dot(chart.x(t), chart.y(all[t - 1].q), "#999");
  chart.curve(all, &Iteration::arithmetic, "#c55a11", 1.5, "");
  svg.text(chart.x(23) + 8, chart.y(all[22].arithmetic) + 4, "AM", "#c55a11");
  chart.curve(all, &Iteration::geometric, "#1f4e79", 2.5, "GM = var_hat");
  svg.text(chart.x(20) + 8, chart.y(all[19].q) + 4, "q, the outlier");
  svg.text(380, 294, "iteration t", "#333", "middle");
}

void draw_outlier(const std::string& path) {
  const std::vector<Iteration> all = history(40, 5, true, 20);
  Svg svg(path, 820, 420);
  const Chart test{svg, 20, 160, 0.005, 50, 5, 40}, average{svg, 230, 150, 0.5, 60, 5, 40};
  test.axes({0.01, 0.1, 1, 10});
  test.curve(all, &Iteration::threshold, "#7f7f7f", 1.5, "M V: threshold");
  test.curve(all, &Iteration::distance, "#c55a11", 2, "AM - GM");
  average.axes({0.5, 1, 2, 5, 10, 20, 50});
  for (int t = 5; t <= 40; ++t) svg.dot(average.x(t), average.y(all[t - 1].q), all[t - 1].skipped ? "#c55a11" : "#999");
  average.curve(all, &Iteration::var_hat, "#1f4e79", 2.5, "");
  svg.text(706, average.y(all[39].var_hat) + 16, "var_hat", "#1f4e79");
  average.curve(all, &Iteration::run_var, "#548235", 1.5, "run_var");
  svg.text(average.x(20) + 8, average.y(all[19].q) + 4, "q, skipped", "#c55a11");
  svg.text(380, 414, "iteration t", "#333", "middle");
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return std::fprintf(stderr, "usage: pictures FOLDER\n"), 1;
  const std::string folder = arguments[1];
  draw_window(folder + "/un-window.svg");
  draw_means(folder + "/un-means.svg");
  draw_outlier(folder + "/un-outlier.svg");
}
