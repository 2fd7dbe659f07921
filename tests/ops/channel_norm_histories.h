// Random histories for the models of channel_norm and power_norm, and comparisons of numbers with tensors.
#pragma once
#include <fmt/core.h>

#include <random>
#include <stdexcept>

#include "engine/tensor.h"
#include "tests/ops/channel_norm_model.h"

namespace foldgrad::testing {

class Histories {
 public:
  explicit Histories(unsigned seed) : rng_(seed) {}
  int below(int n) { return int(rng_() % unsigned(n)); }
  bool coin() { return below(2) == 1; }
  double normal() { return std::normal_distribution<double>()(rng_); }

  // Returns P tokens per channel around a level that steps sometimes leave, upwards or downwards.
  Columns activations(int P, const Column& levels, bool non_finite) {
    const double jumps[] = {1, 1, 1, 1, 1, 1.5, 20, 400, 1e-3, 0};
    const double jump_of_all = jumps[below(10)];
    Columns x;
    for (Real level : levels) {
      const double jump = below(4) ? jump_of_all : jumps[below(10)];
      Column column(P);
      for (Real& v : column) v = double(level * jump) * normal();
      if (non_finite && below(30) == 0) column[below(P)] = coin() ? INFINITY : NAN;
      x.push_back(column);
    }
    return x;
  }
  Columns gradients(int P, int C) {
    Columns dy(C, Column(P));
    for (Column& column : dy)
      for (Real& v : column) v = normal();
    return dy;
  }
  // Returns 1 for rows that count, which come first.
  std::vector<int> counted(int P, bool padded) {
    std::vector<int> real(P, 1);
    if (padded) std::fill(real.begin() + below(P + 1), real.end(), 0);
    return real;
  }

 private:
  std::mt19937 rng_;
};

inline Tensor matrix(const Columns& columns) {
  const std::int64_t C = std::int64_t(columns.size()), P = std::int64_t(columns[0].size());
  std::vector<double> values(P * C);
  for (std::int64_t c = 0; c < C; ++c)
    for (std::int64_t p = 0; p < P; ++p) values[p * C + c] = double(columns[c][p]);
  return Tensor::of({P, C}, values);
}
inline Tensor vector(const Column& column) {
  return Tensor::of({std::int64_t(column.size())}, std::vector<double>(column.begin(), column.end()));
}

// Compares; a value that is infinite or NaN in the model may be either in the operation.
inline void compare(const std::string& what, const Tensor& got, const std::vector<Real>& want) {
  const std::vector<double> values = got.values<double>();
  for (std::size_t i = 0; i < want.size(); ++i) {
    const bool same = std::isfinite(want[i]) ? std::fabs(values[i] - want[i]) <= kTolerance * (1 + std::fabs(want[i]))
                                             : !std::isfinite(values[i]);
    if (!same)
      throw std::runtime_error(fmt::format("{} {}: got {:.17g}, want {:.17g}", what, i, values[i], double(want[i])));
  }
}
inline std::vector<Real> rows_of(const Columns& columns) {
  std::vector<Real> all;
  for (std::size_t p = 0; p < columns[0].size(); ++p)
    for (const Column& column : columns) all.push_back(column[p]);
  return all;
}

}  // namespace foldgrad::testing
