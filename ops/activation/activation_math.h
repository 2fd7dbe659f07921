// One struct per activation, and the list of all activations.
//
//   value(x)       y
//   derivative(s)  y', from s = y if kFromOutput, otherwise from s = x
//   onnx(g, x)     y as nodes of an OnnxGraph (engine/graph/onnx_graph.h)
//
// Hendrycks, Gimpel: "Gaussian Error Linear Units", 2016, defines [ACT-4] (there called SiLU), [ACT-5] and [ACT-6].
#pragma once
#include <string>

#include "engine/cpu/vector_math.h"

namespace foldgrad {
namespace activation_math {

// Returns x (0.5 + 0.5 f), the last step of both gelu variants. ONNX runtimes recognize gelu by these nodes when they
// follow an Erf.
template <class Graph>
std::string onnx_gelu(Graph& g, const std::string& x, const std::string& f) {
  return g.node("Mul", {g.node("Mul", {x, g.node("Add", {f, g.number(1)})}), g.number(0.5)});
}

// y = max(x, 0), y' = [y > 0]
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
  template <class Graph>
  static std::string onnx(Graph& g, const std::string& x) {
    return g.node("Relu", {x});
  }
};

// y = tanh(x), y' = 1 - y^2
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
  template <class Graph>
  static std::string onnx(Graph& g, const std::string& x) {
    return g.node("Tanh", {x});
  }
};

// y = 1 / (1 + e^-x), y' = y (1 - y)
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
  template <class Graph>
  static std::string onnx(Graph& g, const std::string& x) {
    return g.node("Sigmoid", {x});
  }
};

// y = x s, y' = s (1 + x (1 - s)), s = sigmoid(x)
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
  template <class Graph>
  static std::string onnx(Graph& g, const std::string& x) {
    return g.node("Mul", {x, g.node("Sigmoid", {x})});
  }
};

// y = x Phi(x), y' = Phi(x) + x phi(x), where Phi(x) = (1 + erf(x / sqrt(2))) / 2 is the normal distribution
// and phi(x) = e^(-x^2/2) / sqrt(2 pi) its density
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
  template <class Graph>
  static std::string onnx(Graph& g, const std::string& x) {
    return onnx_gelu(g, x, g.node("Erf", {g.node("Div", {x, g.number(1.4142135623730951)})}));
  }
};

// y = x s, y' = s (1 + x (1 - s) 2 u'), s = (1 + tanh(u)) / 2 = sigmoid(2 u),
// u = sqrt(2/pi) (x + 0.044715 x^3), u' = sqrt(2/pi) (1 + 0.134145 x^2)
struct GeluTanh {  // [ACT-6]
  static constexpr bool kFromOutput = false;
  template <class V>
  FOLDGRAD_HD static V value(V x) {
    return x * fast_tanh_cdf(x);
  }
  template <class V>
  FOLDGRAD_HD static V derivative(V x) {
    // fast_tanh_cdf is not accurate enough here: s is multiplied by a large factor where s is small.
    const V square = x * x, two_sqrt = V(1.5957691216057308);  // 2 sqrt(2 / pi)
    const V s = fast_sigmoid(x * std::fma(square, V(0.071354816272600248), two_sqrt));
    const V ds = s * (V(1) - s);  // 0 for large |x|, where the factor of ds may be infinite
    return ds == V(0) ? s : std::fma(ds, x * std::fma(square, V(0.21406444881780074), two_sqrt), s);
  }
  template <class Graph>
  static std::string onnx(Graph& g, const std::string& x) {
    const double a = 0.79788456080286536;  // sqrt(2 / pi)
    const std::string cubic = g.node("Mul", {g.node("Mul", {x, x}), g.number(a * 0.044715)});
    return onnx_gelu(g, x, g.node("Tanh", {g.node("Mul", {x, g.node("Add", {cubic, g.number(a)})})}));
  }
};

// y = log(1 + e^x) = max(x, 0) + log(1 + e^-|x|), y' = sigmoid(x) = 1 - e^-y
struct Softplus {  // [ACT-10]
  static constexpr bool kFromOutput = true;
  template <class V>
  FOLDGRAD_HD static V value(V x) {
    return (x < V(0) ? V(0) : x) + std::log1p(fast_exp_nonpositive(-std::fabs(x)));
  }
  template <class V>
  FOLDGRAD_HD static V derivative(V y) {
    return -std::expm1(-y);
  }
  template <class Graph>
  static std::string onnx(Graph& g, const std::string& x) {
    return g.node("Softplus", {x});
  }
};

// y = min(max(x, 0), 6), y' = [0 < y < 6]
struct Relu6 {  // [ACT-11]
  static constexpr bool kFromOutput = true;
  template <class V>
  FOLDGRAD_HD static V value(V x) {
    return x < V(0) ? V(0) : x > V(6) ? V(6) : x;  // NaN stays NaN
  }
  template <class V>
  FOLDGRAD_HD static V derivative(V y) {
    return y > V(0) && y < V(6) ? V(1) : V(0);
  }
  template <class Graph>
  static std::string onnx(Graph& g, const std::string& x) {
    return g.node("Clip", {x, g.number(0), g.number(6)});
  }
};

// y = e^x, y' = y
struct Exp {  // [ACT-12]
  static constexpr bool kFromOutput = true;
  template <class V>
  FOLDGRAD_HD static V value(V x) {
    return fast_exp(x);
  }
  template <class V>
  FOLDGRAD_HD static V derivative(V y) {
    return y;
  }
  template <class Graph>
  static std::string onnx(Graph& g, const std::string& x) {
    return g.node("Exp", {x});
  }
};

}  // namespace activation_math

// All activations by name. The functions, configurations, export and tests use this list.
// clang-format off
#define FOLDGRAD_ACTIVATIONS(row) \
  row(relu, Relu)                 \
  row(tanh, Tanh)                 \
  row(sigmoid, Sigmoid)           \
  row(silu, Silu)                 \
  row(gelu, Gelu)                 \
  row(gelu_tanh, GeluTanh)        \
  row(softplus, Softplus)         \
  row(relu6, Relu6)               \
  row(exp, Exp)
// clang-format on

#define FOLDGRAD_NAME(name, Struct) name,
enum class Activation : std::uint8_t { FOLDGRAD_ACTIVATIONS(FOLDGRAD_NAME) };
#undef FOLDGRAD_NAME

#define FOLDGRAD_VALUE(name, Struct) Activation::name,
constexpr Activation kActivations[] = {FOLDGRAD_ACTIVATIONS(FOLDGRAD_VALUE)};
#undef FOLDGRAD_VALUE

#define FOLDGRAD_TEXT(name, Struct) #name,
constexpr const char* kActivationNames[] = {FOLDGRAD_ACTIVATIONS(FOLDGRAD_TEXT)};
#undef FOLDGRAD_TEXT

inline const char* name(Activation activation) { return kActivationNames[int(activation)]; }

// Calls body(f) with the struct of an activation, and returns body's result, whose type must not depend on f.
template <class Body>
auto with_activation(Activation activation, const Body& body) {
  switch (activation) {
#define FOLDGRAD_CASE(name, Struct) \
  case Activation::name:            \
    return body(activation_math::Struct());
    FOLDGRAD_ACTIVATIONS(FOLDGRAD_CASE)
#undef FOLDGRAD_CASE
  }
  __builtin_unreachable();
}

// Adds y = activation(x) to an OnnxGraph and returns the name of y.
template <class Graph>
std::string onnx(Graph& g, Activation activation, const std::string& x) {
  return with_activation(activation, [&](auto f) { return decltype(f)::onnx(g, x); });
}

// Returns true if the derivative is a function of y, so that x need not be saved.
inline bool from_output(Activation activation) {
  return with_activation(activation, [](auto f) { return decltype(f)::kFromOutput; });
}

}  // namespace foldgrad
