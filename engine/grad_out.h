// The places where backward kernels write gradients. Included by kernels: C++17, no libraries.
#pragma once
#include <type_traits>
#include <utility>

#include "engine/dtype.h"

namespace foldgrad {

// Backward always adds. The first contribution to a gradient is `set`, so that no gradient must be filled with zeros.
enum class GradMode : std::uint8_t { set, add };

// The place of one operand's gradient. A kernel calls put() exactly once for every element, or skips the operand when
// the place is null, since nothing upstream wants the gradient.
template <class T>
struct GradOut {
  T* data = nullptr;
  GradMode mode = GradMode::set;

  FOLDGRAD_HD explicit operator bool() const { return data != nullptr; }
  FOLDGRAD_HD void put(std::int64_t i, compute_t<T> value) const {
    data[i] = T(mode == GradMode::set ? value : compute_t<T>(data[i]) + value);
  }
};

// The same for sums over rows, such as the gradients of biases and gains. The gradient of a parameter whose value was
// rounded to bf16 (Tape::parameter) is f32, so that nothing of a sum is lost; any other is of type T.
template <class T>
struct ParameterGradOut {
  T* data = nullptr;
  compute_t<T>* exact = nullptr;  // replaces data
  GradMode mode = GradMode::set;

  FOLDGRAD_HD explicit operator bool() const { return data != nullptr || exact != nullptr; }
  FOLDGRAD_HD void put(std::int64_t i, compute_t<T> value) const {
    if (exact)
      GradOut<compute_t<T>>{exact, mode}.put(i, value);
    else
      GradOut<T>{data, mode}.put(i, value);
  }
};

template <class F, class = void>
struct HasTotals : std::false_type {};
template <class F>
struct HasTotals<F, std::void_t<decltype(std::declval<const F&>().total(0))>> : std::true_type {};

// Stores the sums over rows of column c where F says (engine/cpu/column_sums.h).
template <class F>
FOLDGRAD_HD void put_column_sums(const F& f, std::int64_t c, const typename F::Value (&sums)[F::kSums]) {
  if constexpr (HasTotals<F>::value) {
    for (int k = 0; k < F::kSums; ++k)
      if (f.total(k)) f.total(k).put(c, sums[k]);
  } else {
    f.put(c, sums);
  }
}

}  // namespace foldgrad
