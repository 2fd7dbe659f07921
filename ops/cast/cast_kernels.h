#pragma once
#include <type_traits>

#include "engine/kernels.h"

namespace foldgrad {

// Forward with GradMode::set, and with the types exchanged backward.
template <class From, class To>
struct Cast {
  static constexpr const char* kName = "cast";
  GradOut<To> y;
  const From* x;
  std::int64_t n;

  FOLDGRAD_HD void operator()(std::int64_t i) const {
    // Integers go through double, floating values stay as exact as they are: bf16 is rounded once.
    using Exact = std::conditional_t<std::is_integral_v<From>, double, compute_t<From>>;
    const Exact value = Exact(x[i]);
    if (y.mode == GradMode::set)
      y.data[i] = To(value);  // [CAST-1]
    else
      y.put(i, compute_t<To>(value));  // [CAST-2]
  }
  FOLDGRAD_OPERANDS(visit.result(y), visit.element(x));
};

}  // namespace foldgrad
