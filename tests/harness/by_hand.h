// Small operands for tests of messages, and for tests of results computed by hand.
#pragma once
#include "tests/harness/op_spec.h"

namespace foldgrad::testing {

// Return a constant of zeros on the CPU. Tests of messages use it, since only its shape matters.
inline Var zeros(Tape& tape, const Shape& shape, DType dtype = DType::f32) {
  return tape.constant(Tensor::zeros(shape, dtype));
}
template <class... Sizes>
Var zeros(Tape& tape, Sizes... sizes) {
  return tape.constant(Tensor::zeros({std::int64_t(sizes)...}, DType::f32));
}

inline Tensor numbers(Shape shape, const std::vector<double>& values) { return Tensor::of(std::move(shape), values); }

// Returns an error case: f must throw an exception with this message if its operands are zeros of these shapes.
inline OpError error_of_zeros(std::string message, std::vector<Shape> shapes, OpFunction f, DType dtype = DType::f32) {
  return {std::move(message), [=](Tape& tape) {
            std::vector<Var> operands;
            for (const Shape& shape : shapes) operands.push_back(zeros(tape, shape, dtype));
            f(operands);
          }};
}

struct ByHand {
  std::vector<Tensor> operands;  // operands in f64 get gradients
  std::vector<double> y;
  std::vector<double> dy = {};                      // if empty, there is no backward pass
  std::vector<std::vector<double>> gradients = {};  // gradients of the first operands, for this dy
  double tolerance = 0;
  std::optional<Shape> shape = {};  // the shape of y; not checked if absent
};

// Checks that f gives these results on each device.
inline void expect_by_hand(const ByHand& want, const OpFunction& f) {
  const auto compare = [&](const std::string& what, const Tensor& got, const std::vector<double>& numbers) {
    const std::vector<double> values = got.values<double>();
    ASSERT_EQ(values.size(), numbers.size()) << what;
    for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_NEAR(values[i], numbers[i], want.tolerance) << what;
  };
  for (Device device : devices()) {
    SCOPED_TRACE(name(device));
    Tape tape;
    std::vector<Var> vars;
    for (const Tensor& t : want.operands)
      vars.push_back(t.dtype() == DType::f64 ? tape.variable(t.to(device)) : tape.constant(t.to(device)));
    const Var y = f(vars);
    EXPECT_EQ(y.shape(), want.shape.value_or(y.shape()));
    compare("y", y.value(), want.y);
    if (want.dy.empty()) continue;
    tape.backward(y, Tensor::of(y.shape(), want.dy, device));
    for (std::size_t k = 0; k < want.gradients.size(); ++k)
      compare(fmt::format("the gradient of operand {}", k), tape.grad(vars[k]), want.gradients[k]);
  }
}

}  // namespace foldgrad::testing
