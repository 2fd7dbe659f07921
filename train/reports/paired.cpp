#include "train/reports/paired.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace foldgrad {

PairedDifference paired_difference(const std::map<std::string, double>& a, const std::map<std::string, double>& b) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  PairedDifference d{{}, kNaN, kNaN, kNaN};
  for (const auto& [seed, value] : a)
    if (const auto other = b.find(seed); other != b.end()) d.values.push_back(value - other->second);
  const double n = double(d.values.size());
  double sum = 0, squares = 0;
  for (const double v : d.values) sum += v;
  if (n >= 1) d.mean = sum / n;
  if (n < 2) return d;
  for (const double v : d.values) squares += (v - d.mean) * (v - d.mean);
  d.deviation = std::sqrt(squares / (n - 1));
  if (d.deviation > 0) d.p = student_tail(d.mean / d.deviation * std::sqrt(n), int(n) - 1);
  return d;
}

double student_tail(double t, int freedom) {
  const double angle = std::atan(std::fabs(t) / std::sqrt(double(freedom))), cosine = std::cos(angle);
  const bool odd = freedom % 2 == 1;
  double term = odd ? cosine : 1, sum = 0;
  for (int k = odd ? 1 : 0; k < freedom - 1; k += 2) {
    sum += term;
    term *= cosine * cosine * double(k + 1) / double(k + 2);
  }
  sum *= std::sin(angle);
  return 1 - (odd ? 2 / std::numbers::pi * (angle + sum) : sum);
}

}  // namespace foldgrad
