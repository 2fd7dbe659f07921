// The formulas of cross_entropy.h: the CPU loops and the CUDA kernels both call these.
#pragma once
#include "engine/cpu/vector_math.h"

namespace foldgrad::cross_entropy_math {

// The target distribution: gold + rest on the class of the target, rest on each other.
template <class T>
struct Smoothing {
  T gold, rest;  // 1 - eps - eps_i, eps_i
};

template <class T>
FOLDGRAD_HD T exponential(T z, T m) {
  return fast_exp_nonpositive(z - m);  // [CE-1]
}
// Without smoothing, classes of logit -infinity are allowed.
template <class T>
FOLDGRAD_HD T loss(T sum, T gold_shifted, T sum_shifted, const Smoothing<T>& q) {
  return std::log(sum) - q.gold * gold_shifted - (q.rest == T(0) ? T(0) : q.rest * sum_shifted);  // [CE-2]
}
// A class of which the row has no share may be of logit -infinity.
template <class T>
FOLDGRAD_HD T mixed(T first, T second, T lambda) {
  return (lambda == T(0) ? T(0) : lambda * first) + (lambda == T(1) ? T(0) : (T(1) - lambda) * second);  // [CE-5]
}
template <class T>
FOLDGRAD_HD T q(T share, const Smoothing<T>& q) {
  return q.gold * share + q.rest;  // [CE-6]
}
template <class T>
FOLDGRAD_HD T dz(T exponential, T sum_inverse, T q, T weight) {
  return weight * (exponential * sum_inverse - q);  // [CE-4]
}

}  // namespace foldgrad::cross_entropy_math
