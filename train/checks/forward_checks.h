// Checks of what a model computes at inference.
#pragma once
#include "models/model.h"
#include "train/checks/check_result.h"

namespace foldgrad {

// Relative to the greatest logit: what roundings of sums in another order leave in f64, some 1e-15 each.
constexpr double kSameInF64 = 1e-11;

// Parameters and what normalizers remember.
CheckResult check_finite(const Model& model);

// The greatest difference is at most `bound` times the greatest logit.
CheckResult check_same_logits(std::string name, const Tensor& got, const Tensor& want, double bound);

}  // namespace foldgrad
