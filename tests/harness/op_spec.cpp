#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

std::vector<OpSpec>& specs() {
  static std::vector<OpSpec> all;
  return all;
}

// Returns sum(dy * f(operands)), where dy is the dy of run_case(). run_case() computes the gradients of this sum.
double objective(const OpCase& c, const std::vector<Tensor>& operands) {
  Tape tape(/*recording=*/false);
  std::vector<Var> vars;
  for (const Tensor& t : operands) vars.push_back(tape.constant(t));
  const Tensor y = c.f(vars).value();
  const Tensor dy = cotangent(y.shape());
  double sum = 0;
  for (std::int64_t i = 0; i < y.size(); ++i) sum += dy.data<double>()[i] * y.data<double>()[i];
  return sum;
}

}  // namespace

const std::vector<OpSpec>& op_specs() { return specs(); }
RegisterOp::RegisterOp(OpSpec spec) {
  for (OpCase& c : spec.cases) {
    std::int64_t differentiated = 0;
    for (std::size_t k = 0; k < c.operands.size(); ++k)
      if (c.differentiated(k)) differentiated += c.operands[k].size();
    c.large |= differentiated > 500;
    if (c.label.empty())
      for (const Tensor& operand : c.operands) c.label += (c.label.empty() ? "" : " ") + operand.shape().str();
  }
  specs().push_back(std::move(spec));
}

std::vector<Device> devices() {
  return cuda_available() ? std::vector<Device>{Device::cpu, Device::cuda} : std::vector<Device>{Device::cpu};
}

Tensor cotangent(const Shape& shape) { return randn(shape, 99).to(DType::bf16).to(DType::f64); }

OpResult run_case(const OpCase& c, DType dtype, Device device, GradMode mode) {
  const auto start = [&](std::size_t k) { return randn(c.operands[k].shape(), 50 + unsigned(k)).to(dtype); };
  Tape tape;
  std::vector<Var> vars;
  std::vector<Parameter> parameters(c.operands.size());  // used for operands with gradients
  for (std::size_t k = 0; k < c.operands.size(); ++k) {
    const Tensor& operand = c.operands[k];
    const Tensor value = operand.to(operand.dtype() == DType::f64 ? dtype : operand.dtype()).to(device);
    if (c.differentiated(k)) {
      parameters[k].value = value;
      parameters[k].has_grad = mode == GradMode::add;
      if (mode == GradMode::add) parameters[k].grad = start(k).to(device);
    }
    vars.push_back(c.differentiated(k) ? tape.parameter(parameters[k]) : tape.constant(value));
  }

  const Var y = c.f(vars);
  OpResult result{y.value().clone(), std::vector<Tensor>(vars.size())};
  if (y.id() < 0 ||
      std::none_of(vars.begin(), vars.end(), [&](const Var& v) { return c.differentiated(&v - &vars[0]); }))
    return result;
  tape.backward(y, cotangent(y.shape()).to(y.dtype()).to(device));
  for (std::size_t k = 0; k < vars.size(); ++k) {
    if (!c.differentiated(k)) continue;
    result.grads[k] = tape.grad(vars[k]).to(Device::cpu);
    if (mode == GradMode::set) continue;
    result.grads[k] = result.grads[k].to(DType::f64).clone();
    const std::vector<double> initial = start(k).to(DType::f64).values<double>();
    for (std::size_t i = 0; i < initial.size(); ++i) result.grads[k].data<double>()[i] -= initial[i];
  }
  return result;
}

OpResult results_of(const OpFunction& f, const std::vector<Tensor>& operands, const Tensor& dy, DType dtype,
                    Device device) {
  Tape tape;
  std::vector<Var> vars;
  for (const Tensor& t : operands)
    vars.push_back(t.dtype() == DType::f64 ? tape.variable(t.to(dtype).to(device)) : tape.constant(t.to(device)));
  const Var y = f(vars);
  tape.backward(y, dy.to(y.dtype()).to(device));
  OpResult result{y.value(), std::vector<Tensor>(vars.size())};
  for (std::size_t k = 0; k < vars.size(); ++k)
    if (operands[k].dtype() == DType::f64) result.grads[k] = tape.grad(vars[k]);
  return result;
}

// With h = 1e-4, the truncation error, h^4 / 30 times the fifth derivative, and the rounding error, 1e-16 f / h, are
// far below 1e-8 for functions of order 1, even where f curves strongly.
Tensor central_differences(const OpCase& c, std::size_t k) {
  std::vector<Tensor> operands;
  for (const Tensor& t : c.operands) operands.push_back(t.clone());
  Tensor gradient = Tensor::zeros(operands[k].shape(), DType::f64);
  for (std::int64_t i = 0; i < gradient.size(); ++i)
    gradient.data<double>()[i] =
        derivative(operands[k].data<double>()[i], 1e-4, [&] { return objective(c, operands); });
  return gradient;
}

}  // namespace foldgrad::testing
