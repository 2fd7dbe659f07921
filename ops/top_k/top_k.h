// The largest entries of each row and the logarithm of its softmax denominator. Beam search applies this to logits.
//
//   [TOP-1]  indices_r = the k columns c with the largest x_rc, largest first; of equal entries the first column first
//   [TOP-2]  l_r = log sum_c exp(x_rc)
//
//   Also returns the entries of given columns.
//
//   x: [R, C], f32 or f64. A NaN is never among the largest: if a row has too few other entries, the remaining results
//   are -infinity with index -1. l is NaN if the row has a NaN or +infinity, or if all its entries are -infinity.
#pragma once
#include <vector>

#include "engine/tensor.h"

namespace foldgrad {

struct TopK {
  Tensor values, indices, log_sum_exp, wanted;  // [R, k], i64 [R, k], f64 [R], [R, wanted]; on the device of x
};

// Throws std::invalid_argument unless x has the shape and a dtype above, 0 < k <= C, and all wanted columns exist.
TopK top_k(const Tensor& x, std::int64_t k, const std::vector<std::int64_t>& wanted = {});

}  // namespace foldgrad
