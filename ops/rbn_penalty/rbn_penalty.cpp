#include "ops/rbn_penalty/rbn_penalty.h"

#include "engine/cpu/row_op.h"
#include "engine/node_grads.h"
#include "ops/rbn_penalty/rbn_penalty_kernels.h"

namespace foldgrad {
namespace {

struct RbnPenaltyNode {
  Tensor x;
  ChannelMoments moments;
  Tensor run_mean, run_var;
  double mean_weight, variance_weight;

  const char* name() const { return "rbn_penalty"; }

  std::int64_t columns() const { return run_mean.size(); }

  template <class T>
  RbnPenalty<T> forward(T* y) const {
    using S = compute_t<T>;
    return {.mean = moments.mean.data<double>(),
            .variance = moments.square.data<double>(),
            .count = moments.count,
            .run_mean = run_mean.data<S>(),
            .run_var = run_var.data<S>(),
            .mean_weight = mean_weight,
            .variance_weight = variance_weight,
            .columns = columns(),
            .y = y};
  }

  // Differentiates rbn_penalty [RBN-2]: computes dx [RBN-3].
  void backward(NodeGrads& grads) {
    dispatch_floating(name(), x.dtype(), [&]<class T>(Type<T>) {
      using S = compute_t<T>;
      const Tensor mean = per_channel(x), offset = per_channel(x), x_factor = per_channel(x);
      const RbnPenaltyFactors<T> factors{.n = columns(),
                                         .forward = forward<T>(nullptr),
                                         .dy = grads.dy().data<T>(),
                                         .mean = mean.data<S>(),
                                         .offset = offset.data<S>(),
                                         .x_factor = x_factor.data<S>()};
      FOLDGRAD_RUN(x.device(), elementwise, factors);
      const RbnPenaltyGradient<T> gradient{.dx = grads.out<T>(0),
                                           .x = x.data<T>(),
                                           .mean = mean.data<S>(),
                                           .offset = offset.data<S>(),
                                           .x_factor = x_factor.data<S>(),
                                           .rows = rows_of(x),
                                           .columns = columns()};
      FOLDGRAD_RUN(x.device(), matrix, gradient);
    });
  }
  void describe(Description&) const {}
};

}  // namespace

Var rbn_penalty(const Var& xv, const ChannelNormState& state, double mean_weight, double variance_weight,
                Communicator* communicator) {
  const Tensor& x = xv.value();
  check_floating("rbn_penalty", "x", x, 1);
  check_operand("rbn_penalty", "state.run_mean", state.run_mean, {x.shape()[-1]}, statistics_dtype(x), x, "x");
  check_operand("rbn_penalty", "state.run_var", state.run_var, {x.shape()[-1]}, statistics_dtype(x), x, "x");
  RbnPenaltyNode node{.x = x,
                      .moments = channel_moments(x, /*with_mean=*/true, communicator),
                      .run_mean = state.run_mean.clone(),
                      .run_var = state.run_var.clone(),
                      .mean_weight = mean_weight,
                      .variance_weight = variance_weight};
  const Tensor y = Tensor::empty({}, x.dtype(), x.device());
  dispatch_floating("rbn_penalty", x.dtype(), [&]<class T>(Type<T>) {
    const RbnPenalty<T> p = node.forward(y.data<T>());
    FOLDGRAD_RUN(x.device(), row_op, p);
  });
  return xv.tape().record(y, {xv}, std::move(node));
}

}  // namespace foldgrad
