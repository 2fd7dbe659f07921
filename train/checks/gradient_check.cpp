#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <regex>

#include "train/checks/model_checks.h"

namespace foldgrad {
namespace {

// Step sizes, relative to the parameter's component along the direction (at least 1). If a step crosses a kink of relu,
// a smaller one may not.
constexpr double kSteps[] = {1e-5, 1e-6, 1e-7};
constexpr double kRelative = 1e-4;  // tolerates curvature and kinks; a wrong factor causes a much larger error

// A unit vector in the space of one parameter.
struct Direction {
  Parameter& parameter;
  std::vector<double> unit;
  std::string name;
};

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Returns the name with layer numbers replaced by *.
std::string kind_of(const std::string& name) { return std::regex_replace(name, std::regex("[0-9]+"), "*"); }

Direction of_an_element(Parameter& p, std::mt19937_64& random) {
  const auto i = std::size_t(random() % std::uint64_t(p.value.size()));
  Direction d{p, std::vector<double>(std::size_t(p.value.size())), fmt::format("{}[{}]", p.name, i)};
  d.unit[i] = 1;
  return d;
}

Direction of_all_elements(Parameter& p, std::mt19937_64& random) {
  const std::int64_t n = p.value.size();
  Direction d{p, std::vector<double>(std::size_t(n)), p.name};
  const std::vector<double> gradient = p.grad.values<double>();
  const double length = std::sqrt(dot(gradient, gradient));
  for (std::size_t i = 0; i < gradient.size(); ++i)
    d.unit[i] = (length > 0 ? gradient[i] / length : 0) + (random() % 2 ? 1 : -1) / std::sqrt(double(n));
  const double whole = std::sqrt(dot(d.unit, d.unit));
  for (double& u : d.unit) u /= whole > 0 ? whole : 1;
  return d;
}

// Returns the error of the difference quotient divided by its bound. The bound is a fraction of the slope plus the
// rounding error of the loss (some epsilons) divided by the longest step.
double error_over_bound(const Direction& d, const std::function<double()>& loss) {
  Parameter& p = d.parameter;
  const std::vector<double> start = p.value.values<double>();
  const double slope = dot(p.grad.values<double>(), d.unit);
  const double scale = std::max(1.0, std::abs(dot(start, d.unit)));
  const double rounding = 4 * std::numeric_limits<double>::epsilon() * (1 + std::abs(loss())) / (kSteps[0] * scale);
  double best = std::numeric_limits<double>::infinity();
  for (double relative : kSteps) {
    const auto at = [&](double step) {
      std::vector<double> moved = start;
      for (std::size_t i = 0; i < start.size(); ++i) moved[i] += step * d.unit[i];
      p.value.copy_from(Tensor::of(p.value.shape(), moved));
      return loss();
    };
    const double step = relative * scale, quotient = (at(step) - at(-step)) / (2 * step);
    p.value.copy_from(Tensor::of(p.value.shape(), start));
    best = std::min(best, std::abs(quotient - slope) / (kRelative * std::abs(slope) + rounding));
    if (best <= 1) break;
  }
  return best;
}

}  // namespace

CheckResult check_gradients(const std::vector<Parameter*>& parameters, const LossOf& loss) {
  Tape tape;
  for (Parameter* p : parameters) p->zero_grad();
  tape.backward(loss(tape));
  std::map<std::string, std::vector<Parameter*>> kinds;
  for (Parameter* p : parameters) {
    if (!p->has_grad)
      // The loss does not depend on this parameter.
      p->grad = Tensor::zeros(p->value.shape(), DType::f64, p->value.device());
    kinds[kind_of(p->name)].push_back(p);
  }
  const auto value = [&loss] {
    Tape silent(/*recording=*/false);
    return loss(silent).value().item();
  };
  std::mt19937_64 random(1);
  double worst = 0;
  std::string where = "none";
  for (const auto& [kind, all] : kinds) {
    Parameter& p = *all[random() % all.size()];
    for (const Direction& d : {of_an_element(p, random), of_all_elements(p, random)}) {
      const double error = error_over_bound(d, value);
      if (!(error <= worst)) worst = error, where = d.name;
    }
  }
  return check_that(
      "gradients match finite differences of the loss", worst <= 1,
      fmt::format("{} parameter tensors, one of each kind; largest error {:.2g} % of the tolerance, at {}",
                  kinds.size(), 100 * worst, where));
}

}  // namespace foldgrad
