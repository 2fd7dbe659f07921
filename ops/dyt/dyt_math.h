// The functions of dyt.h, for the CPU loops and the CUDA kernels.
#pragma once
#include "engine/cpu/vector_math.h"

namespace foldgrad::dyt_math {

struct Tanh {
  template <class V>
  FOLDGRAD_HD static V value(V u) {
    return fast_tanh(u);  // [DYT-1]
  }
  template <class V>
  FOLDGRAD_HD static V derivative(V, V t) {
    return V(1) - t * t;
  }
};

struct Erf {
  template <class V>
  FOLDGRAD_HD static V value(V u) {
    return fast_erf(u);  // [DERF-1]
  }
  template <class V>
  FOLDGRAD_HD static V derivative(V u, V) {
    return V(1.1283791670955126) * fast_exp_nonpositive(-u * u);
  }
};

}  // namespace foldgrad::dyt_math
