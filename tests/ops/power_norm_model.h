// power_norm once more, in the manner of channel_norm_model.h, without a look at ops/power_norm.
#pragma once
#include "ops/power_norm/power_norm.h"
#include "tests/ops/channel_norm_model.h"

namespace foldgrad::testing {

class PowerNormModel {
 public:
  PowerNormModel(const PowerNormOptions& options, int channels) : phi(channels, 1), nu_ema(channels, 0), o(options) {}

  Column phi, nu_ema;
  long iters = 0, skips = 0;

  // x, dy: [C][P]; real: [P], 0 for padding.
  ModelStep step(const Columns& x, const Columns& dy, const std::vector<int>& real, const Column& gamma,
                 const Column& beta) {
    ++iters;  // the first is 1
    ModelStep out{Columns(x.size()), Columns(x.size()), Column(x.size(), 0), Column(x.size(), 0), {}, {}, false};
    Real n = 0;
    for (int m : real) n += m;
    if (n == 0) ++skips;
    for (std::size_t c = 0; c < x.size(); ++c) {
      Real q = 0;
      for (std::size_t i = 0; i < real.size(); ++i)
        if (real[i]) q += x[c][i] * x[c][i] / n;
      if (n == 0) q = phi[c];
      const Real root = std::sqrt((iters <= o.warmup ? q : phi[c]) + Real(o.eps));
      if (n > 0) forward(c, q);
      backward(c, x[c], dy[c], gamma[c], beta[c], root, std::sqrt(q + Real(o.eps)), n > 0, out);
    }
    return out;
  }

 private:
  void forward(std::size_t c, Real q) {  // [PN-2]
    const Real alpha = o.alpha_forward, t = Real(iters);
    if (iters < o.warmup) phi[c] = phi[c] * (t - 1) / t + q / t;
    phi[c] = alpha * phi[c] + (1 - alpha) * q;
  }
  // [PN-1] and [PN-3]; `root` is what x was divided by.
  void backward(std::size_t c, const Column& x, const Column& dy, Real gamma, Real beta, Real root, Real root_q,
                bool writes, ModelStep& out) {
    Real sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Real z = x[i] / root, h = dy[i] * gamma, corrected = h - (1 - Real(o.alpha_backward)) * nu_ema[c] * z;
      sum += corrected * z;
      out.y[c].push_back(gamma * z + beta);
      out.dx[c].push_back(corrected / root_q);
      out.dgamma[c] += dy[i] * z;
      out.dbeta[c] += dy[i];
    }
    if (writes) nu_ema[c] += sum / Real(x.size());
  }

  const PowerNormOptions o;
};

}  // namespace foldgrad::testing
