// Questions that the loops of both devices ask a parameter struct (elementwise.h, row_op.h). Included by kernels:
// C++17.
#pragma once
#include <type_traits>
#include <utility>

#include "engine/grad_out.h"

namespace foldgrad {

// Stores a result: in its place, or as a contribution to a gradient.
template <class T>
FOLDGRAD_HD void put_result(T* y, std::int64_t i, compute_t<T> value) {
  y[i] = T(value);
}
template <class T>
FOLDGRAD_HD void put_result(const GradOut<T>& dx, std::int64_t i, compute_t<T> value) {
  dx.put(i, value);
}

template <class F, class = void>
struct GivesValue : std::false_type {};
template <class F>
struct GivesValue<F, std::void_t<decltype(std::declval<const F&>().target())>> : std::true_type {};

// Computes and stores element i.
template <class F, class... Column>
FOLDGRAD_HD void run_element(const F& f, std::int64_t i, Column... c) {
  if constexpr (GivesValue<F>::value)
    put_result(f.target(), i, f.value(i, c...));
  else
    f(i, c...);
}

// True where step k of an operation along rows takes maxima (row_op.h).
template <int k, class F, class = void>
constexpr bool kTakesMaxima = false;
template <int k, class F>
constexpr bool kTakesMaxima<k, F, std::enable_if_t<F::kMaxStep == k>> = true;

}  // namespace foldgrad
