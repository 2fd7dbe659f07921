#include "ops/dyt/dyt.h"

#include "ops/dyt/dyt_kernels.h"
#include "ops/total/total.h"

namespace foldgrad {
namespace {

// Operands: x, alpha, gamma, beta, and for derf shift.
struct DytNode {
  Tensor x, alpha, gamma, shift;

  const char* name() const { return shift.defined() ? "derf" : "dyt"; }

  void backward(NodeGrads& grads) {
    dispatch_floating(name(), x.dtype(), [&]<class T>(Type<T>) {
      using Value = compute_t<T>;
      const std::int64_t C = gamma.size();
      const Tensor sums = Tensor::empty({2, C}, dtype_of<Value>, x.device());
      const bool with_shift = shift.defined() && grads.wanted(4);
      const DytBackward<T> p{.dx = grads.out<T>(0),
                             .dgamma = grads.exact_out<T>(2),
                             .dbeta = grads.exact_out<T>(3),
                             .dalpha = grads.wanted(1) ? sums.data<Value>() : nullptr,
                             .dshift = with_shift ? sums.data<Value>() + C : nullptr,
                             .dy = grads.dy().data<T>(),
                             .x = x.data<T>(),
                             .gamma = gamma.data<T>(),
                             .alpha = alpha.data<T>(),
                             .shift = shift.defined() ? shift.data<T>() : nullptr,
                             .rows = x.shape().without(-1).elements(),
                             .columns = C};
      FOLDGRAD_RUN(x.device(), dyt, p);
      const auto total = [&](int operand, const Value* terms) {
        const Total<T> sum{.out = grads.exact_out<T>(operand), .values = terms, .n = C};
        FOLDGRAD_RUN(x.device(), total, sum);
      };
      if (p.dalpha) total(1, p.dalpha);
      if (p.dshift) total(4, p.dshift);
    });
  }
};

Var record(const char* op, const Var& xv, const std::vector<Var>& operands, const Tensor& shift) {
  const Tensor &x = xv.value(), &alpha = operands[1].value(), &gamma = operands[2].value(), &beta = operands[3].value();
  check_floating(op, "x", x, 1);
  const std::int64_t C = x.shape()[-1];
  check_operand(op, "alpha", alpha, {1}, x, "x");
  if (operands.size() == 5) check_operand(op, "shift", shift, {1}, x, "x");
  check_operand(op, "gamma", gamma, {C}, x, "x");
  check_operand(op, "beta", beta, {C}, x, "x");
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  dispatch_floating(op, x.dtype(), [&]<class T>(Type<T>) {
    const DytForward<T> p{.y = y.data<T>(),
                          .x = x.data<T>(),
                          .gamma = gamma.data<T>(),
                          .beta = beta.data<T>(),
                          .alpha = alpha.data<T>(),
                          .shift = shift.defined() ? shift.data<T>() : nullptr,
                          .rows = x.shape().without(-1).elements(),
                          .columns = C};
    FOLDGRAD_RUN(x.device(), dyt, p);
  });
  return xv.tape().record(y, operands, DytNode{.x = x, .alpha = alpha, .gamma = gamma, .shift = shift});
}

}  // namespace

Var dyt(const Var& x, const Var& alpha, const Var& gamma, const Var& beta) {
  return record("dyt", x, {x, alpha, gamma, beta}, Tensor());
}
Var derf(const Var& x, const Var& alpha, const Var& shift, const Var& gamma, const Var& beta) {
  return record("derf", x, {x, alpha, gamma, beta, shift}, shift.value());
}

}  // namespace foldgrad
