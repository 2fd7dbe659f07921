// Computes the square root of a sum of squares that overflows in the type of its terms. Kernels include this file.
#pragma once
#include <cmath>
#include <cstdint>

#include "engine/dtype.h"

namespace foldgrad {

// Returns sqrt(sum over i < n of term(i)^2), computed in f64 as m * sqrt(sum of (term(i) / m)^2), where m is the
// largest |term(i)|. Returns infinity if a term is infinite. Kernels call it only for rows whose plain sum of squares
// is infinite.
template <class Term>
FOLDGRAD_HD double root_of_squares(std::int64_t n, const Term& term) {
  double largest = 0, sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double magnitude = std::fabs(double(term(i)));
    if (magnitude > largest) largest = magnitude;
  }
  if (largest > 1.7976931348623157e308) return largest;
  for (std::int64_t i = 0; i < n; ++i) {
    const double share = double(term(i)) / largest;
    sum += share * share;
  }
  return largest * std::sqrt(sum);
}

}  // namespace foldgrad
