#include "ops/dyt/dyt.h"

#include "engine/cpu/row_op.h"
#include "engine/node_grads.h"
#include "ops/dyt/dyt_kernels.h"
#include "ops/total/total.h"

namespace foldgrad {
namespace {

// The operands are x, alpha, gamma, beta and, for derf, shift.
struct DytNode {
  Tensor x, alpha, gamma, shift;

  const char* name() const { return shift.defined() ? "derf" : "dyt"; }

  // Differentiates dyt [DYT-1] and derf [DERF-1]: computes dx [DYT-2], dgamma and dbeta [DYT-3], da [DYT-4] and ds of
  // derf [DERF-2].
  void backward(NodeGrads& grads) {
    dispatch_floating(name(), x.dtype(), [&]<class T>(Type<T>) {
      using Value = compute_t<T>;
      const std::int64_t C = gamma.size();
      const Tensor terms = Tensor::empty({2, C}, dtype_of<Value>, x.device());
      const auto wanted = [&](int operand) { return (operand < 4 || shift.defined()) && grads.wanted(operand); };
      const auto place = [&](int row, int operand) {
        return ParameterGradOut<T>{.data = wanted(operand) ? terms.data<Value>() + row * C : nullptr};
      };
      const auto run = [&](auto f) {
        const DytBackward<T, decltype(f)> p{.dx = grads.out<T>(0),
                                            .dgamma = grads.out<compute_t<T>>(2),
                                            .dbeta = grads.out<compute_t<T>>(3),
                                            .dalpha_terms = place(0, 1),
                                            .dshift_terms = place(1, 4),
                                            .dy = grads.dy().data<T>(),
                                            .x = x.data<T>(),
                                            .gamma = gamma.data<T>(),
                                            .scalars = {.alpha = alpha.data<T>(), .shift = data_or_null<T>(shift)},
                                            .rows = x.shape().without(-1).elements(),
                                            .columns = C};
        FOLDGRAD_RUN(x.device(), elements_and_column_sums, p);
      };
      shift.defined() ? run(DytErf()) : run(DytTanh());
      for (const auto& [operand, sums] : {std::pair{1, place(0, 1)}, {4, place(1, 4)}}) {
        if (!wanted(operand)) continue;
        const Total<T> total{.out = grads.out<compute_t<T>>(operand), .values = sums.data, .columns = C};
        FOLDGRAD_RUN(x.device(), row_op, total);
      }
    });
  }
  void describe(Description&) const {}
};

Var record(const char* op, const Var& xv, const std::vector<Var>& operands, const Tensor& shift) {
  const Tensor &x = xv.value(), &alpha = operands[1].value(), &gamma = operands[2].value(), &beta = operands[3].value();
  const std::int64_t C = check_channels(op, x, gamma, beta);
  check_operand(op, "alpha", alpha, {1}, x, "x");
  if (operands.size() == 5) check_operand(op, "shift", shift, {1}, x, "x");
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  dispatch_floating(op, x.dtype(), [&]<class T>(Type<T>) {
    const auto run = [&](auto f) {
      const DytForward<T, decltype(f)> p{.y = y.data<T>(),
                                         .x = x.data<T>(),
                                         .gamma = gamma.data<T>(),
                                         .beta = beta.data<T>(),
                                         .scalars = {.alpha = alpha.data<T>(), .shift = data_or_null<T>(shift)},
                                         .rows = x.shape().without(-1).elements(),
                                         .columns = C};
      FOLDGRAD_RUN(x.device(), matrix, p);
    };
    shift.defined() ? run(DytErf()) : run(DytTanh());
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
