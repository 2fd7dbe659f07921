// The formulas of attention.h, one element at a time: the CPU loops and the CUDA kernels both call these.
#pragma once
#include <limits>

#include "engine/cpu/vector_math.h"

namespace foldgrad::attention_math {

// The score of a key that a query does not see.
template <class V>
constexpr V kHidden = -std::numeric_limits<V>::infinity();

// q_dot_k is s / scale; -infinity, for hidden keys, gives 0.
template <class V>
FOLDGRAD_HD V p(V q_dot_k, V scale, V L) {
  return fast_exp(q_dot_k * scale - L);  // [ATT-1] [ATT-2]
}
// Returns L from the largest q_dot_k and the sum of exp(s_ij - scale max); infinite for a query without keys, so that
// every p is 0.
template <class V>
FOLDGRAD_HD V L(V max, V sum, V scale) {
  return sum == 0 ? -kHidden<V> : scale * max + std::log(sum);  // [ATT-2]
}
template <class V>
FOLDGRAD_HD V ds(V p, V z_dy_dot_v, V delta) {
  return p * (z_dy_dot_v - delta);  // [ATT-5]
}

}  // namespace foldgrad::attention_math
