#include "train/analyses/exact_gradient.h"

#include <cmath>

namespace foldgrad {

GradientAgreement gradient_agreement(const ChannelValues& v) {
  double both = 0, ours = 0, exact = 0, below = 0, counted = 0;
  for (std::size_t c = 0; c < v.q.size(); ++c) {
    const double k = v.rstd[c] * v.rstd[c], psi = v.psi[c], true_psi = v.slope[c] * v.G[c];
    const auto product = [&](double a, double b) {
      return (v.h_square[c] - (a + b) * v.G[c] + a * b * v.q[c] * k) * k;
    };
    both += product(psi, true_psi);
    ours += product(psi, psi);
    exact += product(true_psi, true_psi);
    if (!v.averaged || v.flags[c]) continue;
    below += v.var_hat[c] < v.q[c];
    ++counted;
  }
  return {both / std::sqrt(ours * exact), std::sqrt(ours / exact), below / counted};
}

}  // namespace foldgrad
