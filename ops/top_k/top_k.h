// The largest entries of each row, and what a softmax of the row divides by: what beam search asks of logits.
//
//   [TOP-1]  indices_r = the k columns c with the largest x_rc, largest first, of equal ones the first
//   [TOP-2]  l_r = log sum_c exp(x_rc)
//
//   Beside them, the entries of a few columns that are wanted whatever they are.
//
//   x: [R, C], f32 or f64. A NaN is never among the largest: where a row has too few others the rest are -infinity,
//   with index -1. l of a row with a NaN, with an infinity that is not negative, or of nothing but -infinity is NaN.
#pragma once
#include <vector>

#include "engine/tensor.h"

namespace foldgrad {

struct TopK {
  Tensor values, indices, log_sum_exp, wanted;  // [R, k], i64 [R, k], f64 [R], [R, wanted]; on x's device
};

// Throws std::invalid_argument for another rank or dtype, and unless 0 < k <= C and all wanted columns exist.
TopK top_k(const Tensor& x, std::int64_t k, const std::vector<std::int64_t>& wanted = {});

}  // namespace foldgrad
