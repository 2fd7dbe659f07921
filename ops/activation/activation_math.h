// The formulas of activation.h, each a type: value(x), and derivative(y) if kFromOutput, else derivative(x).
#pragma once
#include "engine/cpu/vector_math.h"

namespace foldgrad {

enum class Activation : std::uint8_t { relu, tanh, sigmoid, silu, gelu, gelu_tanh };

namespace activation_math {

struct Relu {  // [ACT-1]
  static constexpr bool kFromOutput = true;
  template <class V>
  FOLDGRAD_HD static V value(V x) {
    return x < V(0) ? V(0) : x;  // NaN stays NaN
  }
  template <class V>
  FOLDGRAD_HD static V derivative(V y) {
    return y > V(0) ? V(1) : V(0);
  }
};

struct Tanh {  // [ACT-2]
  static constexpr bool kFromOutput = true;
  template <class V>
  FOLDGRAD_HD static V value(V x) {
    return fast_tanh(x);
  }
  template <class V>
  FOLDGRAD_HD static V derivative(V y) {
    return V(1) - y * y;
  }
};

struct Sigmoid {  // [ACT-3]
  static constexpr bool kFromOutput = true;
  template <class V>
  FOLDGRAD_HD static V value(V x) {
    return fast_sigmoid(x);
  }
  template <class V>
  FOLDGRAD_HD static V derivative(V y) {
    return y * (V(1) - y);
  }
};

struct Silu {  // [ACT-4]
  static constexpr bool kFromOutput = false;
  template <class V>
  FOLDGRAD_HD static V value(V x) {
    return x * fast_sigmoid(x);
  }
  template <class V>
  FOLDGRAD_HD static V derivative(V x) {
    const V s = fast_sigmoid(x);
    return s * (V(1) + x * (V(1) - s));
  }
};

struct Gelu {  // [ACT-5]
  static constexpr bool kFromOutput = false;
  template <class V>
  FOLDGRAD_HD static V value(V x) {
    return x * fast_normal_cdf(x);
  }
  template <class V>
  FOLDGRAD_HD static V derivative(V x) {
    const V density = V(0.39894228040143268) * fast_exp_nonpositive(V(-0.5) * x * x);
    return std::fma(x, density, fast_normal_cdf(x));
  }
};

struct GeluTanh {  // [ACT-6]
  static constexpr bool kFromOutput = false;
  template <class V>
  FOLDGRAD_HD static V value(V x) {
    return x * fast_tanh_cdf(x);
  }
  template <class V>
  FOLDGRAD_HD static V derivative(V x) {
    // Here s counts where it is small, since what it is multiplied by is large there: not fast_tanh_cdf.
    const V square = x * x, two_sqrt = V(1.5957691216057308);  // 2 sqrt(2 / pi)
    const V s = fast_sigmoid(x * std::fma(square, V(0.071354816272600248), two_sqrt));
    return std::fma(s * (V(1) - s), x * std::fma(square, V(0.21406444881780074), two_sqrt), s);
  }
};

}  // namespace activation_math

// Calls body(f) with the type of an activation.
template <class Body>
void with_activation(Activation activation, const Body& body) {
  switch (activation) {
    case Activation::relu:
      return body(activation_math::Relu());
    case Activation::tanh:
      return body(activation_math::Tanh());
    case Activation::sigmoid:
      return body(activation_math::Sigmoid());
    case Activation::silu:
      return body(activation_math::Silu());
    case Activation::gelu:
      return body(activation_math::Gelu());
    case Activation::gelu_tanh:
      return body(activation_math::GeluTanh());
  }
}

// Whether its derivative is one of y, so that x need not be kept.
inline bool from_output(Activation activation) {
  bool result = false;
  with_activation(activation, [&](auto f) { result = decltype(f)::kFromOutput; });
  return result;
}

}  // namespace foldgrad
