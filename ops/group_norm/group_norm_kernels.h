// The formulas of group_norm.h for one element, and the parameter structs of the CPU and CUDA loops that apply them.
#pragma once
#include <cmath>

#include "engine/cpu/root_of_squares.h"
#include "engine/kernels.h"

namespace foldgrad {
namespace group_norm_math {

template <class T>
FOLDGRAD_HD T squared_deviation(T x, T mu) {
  return (x - mu) * (x - mu);  // [GN-1]
}
// `weight` is 1/m, or 0 for a sample without rows.
template <class T>
FOLDGRAD_HD T rstd(T squares, T weight, T eps) {
  return weight > 0 ? T(1) / std::sqrt(squares * weight + eps) : T(0);  // [GN-2]
}
template <class T>
FOLDGRAD_HD T xhat(T x, T mu, T rstd) {
  return (x - mu) * rstd;  // [GN-2]
}
template <class T>
FOLDGRAD_HD T y(T xhat, T gamma, T beta) {
  return gamma * xhat + beta;  // [GN-3]
}
template <class T>
FOLDGRAD_HD T dx(T h, T xhat, T rstd, T sum_h, T sum_h_xhat, T weight) {
  return rstd * (h - weight * (sum_h + xhat * sum_h_xhat));  // [GN-4]
}
// Returns one row's term of the sum over rows.
template <class T>
FOLDGRAD_HD T dgamma(T dy, T xhat) {
  return dy * xhat;  // [GN-5]
}

}  // namespace group_norm_math

struct GroupNormShape {
  const std::int64_t* offsets;  // [samples + 1]: the first row of each sample; null if each row is a sample
  std::int64_t samples, rows, columns, groups;

  FOLDGRAD_HD std::int64_t begin(std::int64_t s) const { return offsets ? offsets[s] : s; }
  FOLDGRAD_HD std::int64_t end(std::int64_t s) const { return offsets ? offsets[s + 1] : s + 1; }
  // Returns 1/m, or 0 for a sample without rows.
  template <class Value>
  FOLDGRAD_HD Value weight(std::int64_t s) const {
    const std::int64_t m = (end(s) - begin(s)) * (columns / groups);
    return m > 0 ? Value(1) / Value(m) : Value(0);
  }
};

template <class T>
struct GroupNormForward {
  T* y;                       // [rows, columns]
  compute_t<T>*mu, *rstd;     // [samples, groups]
  const T *x, *gamma, *beta;  // [rows, columns], [columns], [columns]
  GroupNormShape shape;
  compute_t<T> eps;

  // Returns rstd of group g of sample s from `squares`, the sum of squared deviations from mu.
  FOLDGRAD_HD compute_t<T> rstd_of(compute_t<T> squares, std::int64_t s, std::int64_t g, compute_t<T> mu) const {
    const compute_t<T> weight = shape.template weight<compute_t<T>>(s),
                       plain = group_norm_math::rstd(squares, weight, eps);
    if (plain != 0 || weight == 0) return plain;
    // The squares overflowed; compared with them, eps is negligible.
    const std::int64_t width = shape.columns / shape.groups, first = shape.begin(s) * shape.columns + g * width,
                       n = (shape.end(s) - shape.begin(s)) * width;
    return compute_t<T>(std::sqrt(double(n)) / root_of_squares(n, [&](std::int64_t i) {
                          return double(x[first + i / width * shape.columns + i % width]) - double(mu);
                        }));
  }
};

template <class T>
struct GroupNormBackward {
  using Value = compute_t<T>;
  static constexpr int kSums = 2;  // dgamma and dbeta, summed over rows (engine/cpu/column_sums.h)

  GradOut<T> dx;
  ParameterGradOut<T> dgamma, dbeta;
  const T *dy, *x, *gamma;
  const Value *mu, *rstd;
  const std::int64_t* sample_of_row;  // [rows], used only on CUDA; null if each row is a sample
  GroupNormShape shape;
  std::int64_t rows, columns;  // for the column sums; on the CPU, each row is a whole sample

  FOLDGRAD_HD const ParameterGradOut<T>& total(int k) const { return k == 0 ? dgamma : dbeta; }
};

FOLDGRAD_DECLARE(group_norm, GroupNormForward);
FOLDGRAD_DECLARE(group_norm, GroupNormBackward);

}  // namespace foldgrad
