// Specifications of operations. From an operation's specification, op_tests.cpp derives the tests that every operation
// must pass: gradients against central differences, parity of the devices, lower precision, thread orders, repetition,
// messages. tests/ops/NAME_test.cpp contains the specification, and the tests that only this operation needs, for
// example results computed by hand and properties.
#pragma once
#include <algorithm>
#include <functional>

#include "engine/fast.h"
#include "engine/tape.h"
#include "tests/harness/compare.h"

namespace foldgrad::testing {

using OpFunction = std::function<Var(const std::vector<Var>&)>;

struct OpCase {
  std::string label = {};  // if empty, the shapes of the operands
  // All operands are on the CPU. Those in f64 get gradients, and are converted for the tests of lower precision. The
  // others (ids, masks) stay as they are.
  std::vector<Tensor> operands;
  OpFunction f;
  std::vector<int> constants = {};  // indices of f64 operands without a gradient
  // True if central differences would take too long. Then only parity with another device checks the gradients.
  // RegisterOp sets `large` if more than 500 numbers get gradients.
  bool large = false;

  bool differentiated(std::size_t k) const {
    return operands[k].dtype() == DType::f64 && !std::count(constants.begin(), constants.end(), int(k));
  }
};

// Return a case of f with random operands of these shapes. Without a label, the shapes name the case.
inline OpCase random_case(const std::vector<Shape>& shapes, std::string label, OpFunction f) {
  OpCase c{.label = std::move(label), .operands = {}, .f = std::move(f)};
  for (const Shape& shape : shapes) c.operands.push_back(randn(shape, unsigned(c.operands.size() + 1)));
  return c;
}
inline OpCase random_case(const std::vector<Shape>& shapes, OpFunction f) {
  return random_case(shapes, std::string(), std::move(f));
}

struct OpError {
  std::string message;  // the whole message
  std::function<void(Tape&)> body;
};

struct OpSpec {
  std::string name;  // name of the public function
  std::vector<OpCase> cases;
  std::vector<OpError> errors;
  double parity_tolerance = 1e-12;  // for f64 on two devices, which sum in different orders
  // Tolerances in multiples of 2^-24, the unit roundoff of f32, and of 2^-9, half the unit roundoff of bf16.
  double f32_roundoffs = 200;
  double bf16_roundoffs = 8;
  std::string no_gradient = {};  // why the operation has no gradient; empty if it has one
};

const std::vector<OpSpec>& op_specs();
struct RegisterOp {
  explicit RegisterOp(OpSpec spec);
};

// The result y of one case and the gradients of its f64 operands.
struct OpResult {
  Tensor y;
  std::vector<Tensor> grads;  // undefined for operands without a gradient
};
// Runs a case. With GradMode::add, gradients start at random values, which are subtracted at the end. With
// GradMode::set, the first contribution overwrites them.
OpResult run_case(const OpCase& c, DType dtype, Device device, GradMode mode = GradMode::set);

// Returns y and the gradients of the f64 operands for this dy. Converts these operands to `dtype`, and moves all
// operands to the device.
OpResult results_of(const OpFunction& f, const std::vector<Tensor>& operands, const Tensor& dy,
                    DType dtype = DType::f64, Device device = Device::cpu);

// Returns the dy of run_case(). It is random, since some wrong backward passes give the right gradients if dy is 1
// everywhere. Its values are exact in every precision.
Tensor cotangent(const Shape& shape);

// Returns the gradient of f64 operand k by central differences of sum(dy * y).
Tensor central_differences(const OpCase& c, std::size_t k);

// Turns off the fast kernels (engine/fast.h) for the lifetime of the object.
class PlainKernels {
 public:
  PlainKernels() { FastKernel::off = true; }
  ~PlainKernels() { FastKernel::off = false; }
};

// Registers the generic tests of every specification with GoogleTest; called by main().
void register_op_tests();

// Calls `body` for each thread order of the emulation except the usual one. Does nothing if a GPU runs the kernels.
void in_other_thread_orders(const std::function<void()>& body);

// Returns cpu, and cuda if this process can use it.
std::vector<Device> devices();

}  // namespace foldgrad::testing
