// Calls the optional members of parameter structs (elementwise.h, row_op.h), for the loops of both devices. Kernels
// include this file, so it must be C++17.
#pragma once
#include <type_traits>
#include <utility>

#include "engine/grad_out.h"

namespace foldgrad {

// Stores a result in a tensor, or passes it to a gradient's put().
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

// A struct that draws random numbers has random(), which returns the sequence, and draws(), which returns false if no
// numbers are needed. Its value() and add() take one more argument: the 16 random bits of the element, or 0 if draws()
// is false. In add(), this argument precedes the sums.
template <class F, class = void>
struct IsRandom : std::false_type {};
template <class F>
struct IsRandom<F, std::void_t<decltype(std::declval<const F&>().random())>> : std::true_type {};

// A struct may have start(i, r). Loops call it before they compute consecutive elements i, i + 1, ... of row r.
template <class F, class = void>
struct HasStart : std::false_type {};
// True for any member named start(), so that wrong parameters fail to compile instead of disabling the call.
template <class F>
struct HasStart<F, std::void_t<decltype(&F::start)>> : std::true_type {};
template <class F>
FOLDGRAD_HD void start_elements(F& f, std::int64_t i, std::int64_t r) {
  if constexpr (HasStart<F>::value) f.start(i, r);
}

// These call value() or add() of a struct that may draw random numbers. bits_of(i) returns element i's random bits.
template <class F, class Bits, class... Column>
FOLDGRAD_HD auto value_of(const F& f, const Bits& bits_of, std::int64_t i, Column... c) {
  if constexpr (IsRandom<F>::value)
    return f.value(i, c..., bits_of(i));
  else
    return f.value(i, c...);
}
template <class F, class Bits>
FOLDGRAD_HD void add_terms(const F& f, const Bits& bits_of, std::int64_t r, std::int64_t c,
                           typename F::Value (&sums)[F::kSums]) {
  if constexpr (IsRandom<F>::value)
    f.add(r, c, bits_of(r * f.columns + c), sums);
  else
    f.add(r, c, sums);
}

// Computes and stores element i.
template <class F, class Bits, class... Column>
FOLDGRAD_HD void run_element(const F& f, const Bits& bits_of, std::int64_t i, Column... c) {
  if constexpr (GivesValue<F>::value)
    put_result(f.target(), i, value_of(f, bits_of, i, c...));
  else
    f(i, c...);
}

// Returns true if at least one of the sums over rows is wanted (column_sums.h).
template <class F>
bool wants_column_sums(const F& f) {
  for (int k = 0; k < F::kSums; ++k)
    if (f.total(k)) return true;
  return false;
}

// Stores the sums of column c over the rows.
template <class F>
FOLDGRAD_HD void put_column_sums(const F& f, std::int64_t c, const typename F::Value (&sums)[F::kSums]) {
  for (int k = 0; k < F::kSums; ++k)
    if (f.total(k)) f.total(k).put(c, sums[k]);
}

// True if step k of a row operation takes maxima instead of sums (row_op.h).
template <int k, class F, class = void>
constexpr bool kTakesMaxima = false;
template <int k, class F>
constexpr bool kTakesMaxima<k, F, std::enable_if_t<F::kMaxStep == k>> = true;

}  // namespace foldgrad
