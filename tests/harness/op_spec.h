// One specification per operation, from which the harness makes the tests that every operation must pass
// (op_tests.cpp): gradients against central differences, parity of the devices, lower precision, thread orders,
// repetition, messages. Anything particular to one operation (values worked by hand, properties) is tested beside its
// specification in tests/ops/NAME_test.cpp.
#pragma once
#include <algorithm>
#include <functional>

#include "engine/fast.h"
#include "engine/tape.h"
#include "tests/harness/compare.h"

namespace foldgrad::testing {

using OpFunction = std::function<Var(const std::vector<Var>&)>;

struct OpCase {
  std::string label = {};  // none: the shapes of the operands
  // f64 operands are differentiated, and converted for the tests of lower precision; others (ids, masks) stay as they
  // are. All on the CPU.
  std::vector<Tensor> operands;
  OpFunction f;
  std::vector<int> constants = {};  // f64 operands that get no gradient by definition
  // A case without central differences, as is every case of more than 500 differentiated numbers: gradients are carried
  // over by parity.
  bool large = false;

  bool differentiated(std::size_t k) const {
    return operands[k].dtype() == DType::f64 && !std::count(constants.begin(), constants.end(), int(k));
  }
};

// Make a case of f and random operands of these shapes, by which it is named where no label is given.
inline OpCase random_case(const std::vector<Shape>& shapes, std::string label, OpFunction f) {
  OpCase c{.label = std::move(label), .operands = {}, .f = std::move(f)};
  for (const Shape& shape : shapes) c.operands.push_back(randn(shape, unsigned(c.operands.size() + 1)));
  return c;
}
inline OpCase random_case(const std::vector<Shape>& shapes, OpFunction f) {
  return random_case(shapes, std::string(), std::move(f));
}

struct OpError {
  std::string message;  // the whole of it
  std::function<void(Tape&)> body;
};

struct OpSpec {
  std::string name;  // of the public function
  std::vector<OpCase> cases;
  std::vector<OpError> errors;
  double parity_tolerance = 1e-12;  // f64 on both devices, sums in another order
  // Multiples of the unit roundoff of f32 (2^-24) and bf16 (2^-9).
  double f32_roundoffs = 200;
  double bf16_roundoffs = 8;
  std::string no_gradient = {};  // why the operation has none, for the rare one without
};

const std::vector<OpSpec>& op_specs();
struct RegisterOp {
  explicit RegisterOp(OpSpec spec);
};

// y and the gradients of the f64 operands of one case. Gradients start at random values, which are taken off again, or
// are set by the first contribution.
struct OpResult {
  Tensor y;
  std::vector<Tensor> grads;  // undefined for operands without a gradient
};
OpResult run_case(const OpCase& c, DType dtype, Device device, GradMode mode = GradMode::set);

// Returns y and the gradients of the f64 operands for this dy. Converts these operands to `dtype`, and moves all
// operands to the device.
OpResult results_of(const OpFunction& f, const std::vector<Tensor>& operands, const Tensor& dy,
                    DType dtype = DType::f64, Device device = Device::cpu);

// Returns the dy of run_case: random, since with a sum as loss a wrong backward can look right, and exact in every
// precision.
Tensor cotangent(const Shape& shape);

// Returns the gradient of operand k, an f64 one, by central differences of sum(dy * y).
Tensor central_differences(const OpCase& c, std::size_t k);

// Turns the fast kernels (engine/fast.h) off while it lives.
class PlainKernels {
 public:
  PlainKernels() { FastKernel::off = true; }
  ~PlainKernels() { FastKernel::off = false; }
};

// Registers the generic tests of every specification with GoogleTest; called by main().
void register_op_tests();

// Calls `body` for each order of threads of the emulation but the usual one; not at all where a GPU runs kernels.
void in_other_thread_orders(const std::function<void()>& body);

// Returns cpu, and cuda where this process has it.
std::vector<Device> devices();

}  // namespace foldgrad::testing
