// Operands and helpers that the tests of channel_norm share.
#pragma once
#include "ops/channel_norm/channel_norm.h"
#include "tests/harness/by_hand.h"

namespace foldgrad::testing {

inline void set(Tensor buffer, double value) {
  if (buffer.defined()) buffer.copy_from(Tensor::full(buffer.shape(), value, buffer.dtype()));
}
inline void set_iterations(ChannelNormState state, std::int64_t t) {
  state.iters.copy_from(Tensor::of<std::int64_t>({}, {t}));
}
inline ChannelNormOptions with_warmup(ChannelNormOptions o, std::int64_t warmup) {
  o.warmup = warmup;
  return o;
}
// Returns UN's options with filtration, which is active as soon as the window is full.
inline ChannelNormOptions filtered(Granularity granularity) {
  ChannelNormOptions o = with_warmup(ChannelNormOptions::un(), 0);
  o.filtration = true;
  o.granularity = granularity;
  return o;
}
inline ChannelNormOptions single_window(ChannelNormOptions o) {
  o.window_forward = o.window_backward = 1;
  o.warmup = 0;
  return o;
}

struct ChannelResult {
  std::vector<double> y, dx, dgamma, dbeta;
};
// Runs one training step on a single channel.
inline ChannelResult step(const ChannelNormOptions& o, const ChannelNormState& state, const std::vector<double>& x,
                          const std::vector<double>& dy, double gamma = 1, double beta = 0,
                          std::optional<std::int64_t> counted = {}) {
  const Shape column{std::int64_t(x.size()), 1};
  const OpResult all = results_of(
      [&](auto& v) { return channel_norm(v[0], v[1], v[2], state, o, {.training = true, .counted = counted}); },
      {numbers(column, x), numbers({1}, {gamma}), numbers({1}, {beta})}, numbers(column, dy), DType::f64,
      state.iters.device());
  return {all.y.values<double>(), all.grads[0].values<double>(), all.grads[1].values<double>(),
          all.grads[2].values<double>()};
}
// Returns a copy with its own buffers.
inline ChannelNormState copy_of(ChannelNormState state) {
  for (Tensor* t : {&state.run_mean, &state.run_var, &state.psi_ema, &state.win_sq, &state.win_g, &state.iters,
                    &state.skips, &state.skips_in_a_row})
    if (t->defined()) *t = t->clone();
  return state;
}
inline ChannelNormState fresh(const ChannelNormOptions& o, Device device) {
  return ChannelNormState::create(o, 1, DType::f64, device);
}
inline double item(const Tensor& t, std::int64_t i = 0) { return t.values<double>()[i]; }

// A layer with random gamma and beta. It has everything that a step needs except x and dy.
struct Layer {
  ChannelNormOptions options;
  ChannelNormState state;
  Tensor gamma, beta;

  Layer(const ChannelNormOptions& o, std::int64_t C, Device device, DType dtype = DType::f64)
      : options(o),
        state(ChannelNormState::create(o, C, dtype, device)),
        gamma(randn({C}, 91).to(dtype).to(device)),
        beta(randn({C}, 92).to(dtype).to(device)) {}
  Var forward(Tape& tape, const Var& x, std::optional<std::int64_t> counted = {}, bool training = true) const {
    return channel_norm(x, tape.constant(gamma), tape.constant(beta), state, options,
                        {.training = training, .counted = counted});
  }
  // Runs a forward pass in training mode, without gradients.
  void forward(const Tensor& x) const {
    Tape tape(/*recording=*/false);
    forward(tape, tape.constant(x.to(gamma.device())));
  }
  // Returns y and dx.
  std::pair<Tensor, Tensor> step(const Tensor& x, const Tensor& dy, std::optional<std::int64_t> counted = {}) const {
    const OpResult all = results_of([&](auto& v) { return forward(v[0].tape(), v[0], counted); }, {x.to(DType::f64)},
                                    dy, gamma.dtype(), gamma.device());
    return {all.y, all.grads[0]};
  }
};

inline void expect_same_state(const ChannelNormState& a, const ChannelNormState& b, const std::string& what) {
  for (const auto& [name, buffer] : b.named())
    EXPECT_TRUE(identical(a.named().at(name), buffer)) << what << ", " << name;
}

}  // namespace foldgrad::testing
