// A second implementation of channel_norm, which computes one number at a time in long double. It was written from the
// papers and the observed results of the authors' programs, without looking at ops/channel_norm. Where these sources
// leave a case open (batches of padding only, non-finite numbers, windows of unequal length, mixtures of methods), it
// follows docs/normalizers.md.
//
// Columns are channels. Sums are over all positions; means "over S" are over the n positions that are not padding.
#pragma once
#include <cmath>
#include <vector>

#include "ops/channel_norm/channel_norm_options.h"

namespace foldgrad::testing {

using Real = long double;
using Column = std::vector<Real>;
using Columns = std::vector<Column>;  // columns [C][P], or the rows [M][C] of a window

// The tolerance of comparisons in f64. If the two sides of an outlier test are this close, rounding could decide it.
constexpr Real kTolerance = 1e-9L;

struct ModelStep {
  Columns y, dx;             // [C][P]
  Column dgamma, dbeta;      // [C]
  Column r;                  // [C], the clamped factor r of the released forms
  std::vector<int> outlier;  // [C]
  bool close_call = false;
};

inline Real arithmetic_mean(const Column& a) {
  Real sum = 0;
  for (Real v : a) sum += v;
  return sum / Real(a.size());
}
inline Real geometric_mean(const Column& a, Real least) {
  Real sum = 0;
  for (Real v : a) sum += std::log(v < least ? least : v);
  return std::exp(sum / Real(a.size()));
}
// Returns V(sqrt(a)), the variance of the roots, with the denominator a.size() - ddof.
inline Real variance_of_roots(const Column& a, int ddof) {
  if (a.size() == 1) return 0;  // both sides of [UN-18] are 0
  Column roots;
  for (Real v : a) roots.push_back(std::sqrt(v));
  const Real mean = arithmetic_mean(roots);
  Real sum = 0;
  for (Real v : roots) sum += (v - mean) * (v - mean);
  return sum / Real(int(a.size()) - ddof);
}

class ChannelNormModel {
 public:
  ChannelNormModel(const ChannelNormOptions& options, int channels, Real tolerance, long start_iters = 0)
      : run_mean(channels, 0),
        run_var(channels, 1),
        psi_ema(channels, 0),
        win_sq(options.window_forward, Column(channels, 0)),
        win_g(options.window_backward, Column(channels, 0)),
        iters(start_iters),
        in_a_row(channels, 0),
        o(options),
        C(channels),
        rtol(tolerance) {}

  Column run_mean, run_var, psi_ema;
  Columns win_sq, win_g;  // [M][C]
  long iters, skips = 0;
  std::vector<long> in_a_row;  // number of consecutive skips, [C]

  // Runs one iteration. x and dy are [C][P]; `real` is [P], with 0 for padding.
  ModelStep step(const Columns& x, const Columns& dy, const std::vector<int>& real, const Column& gamma,
                 const Column& beta) {
    t = ++iters;  // the first iteration is 1
    begin(x, real);
    find_outliers();
    for (int c = 0; c < C; ++c) {
      forward(c);
      finish(c, x[c], dy[c], gamma[c], beta[c]);
    }
    bool skipped = false;
    for (int c = 0; c < C; ++c) skipped = skipped || out.outlier[c] || held[c];
    skips += skipped;
    return out;
  }

 private:
  const ChannelNormOptions o;
  const int C;
  const Real rtol;
  // Values of this iteration:
  long t = 0;
  std::vector<int> in_s;  // [P]
  Real n = 0, P = 0;
  Column mean, q;         // statistics of the batch; `mean` is 0 if the statistic is a mean square
  std::vector<int> held;  // channels with too few positions, or with statistics that are not finite
  Real root = 0;          // the divisor of x, in the current channel
  ModelStep out;

  bool storable(Real v) const { return !o.finite_state || std::isfinite(v); }
  bool released() const { return o.form == ChannelForm::released; }         // false for mabn_released
  bool averages(long window) const { return t > window && t >= o.warmup; }  // false at t = M
  // Returns true if UN uses no average because its window has one entry. MABN averages even then.
  bool single() const { return o.forward == ForwardAverage::geometric && o.window_forward == 1; }
  bool active() const {
    const bool windowed = o.forward == ForwardAverage::arithmetic || o.forward == ForwardAverage::geometric;
    return averages(windowed ? o.window_forward : 0) && !single();
  }

  void begin(const Columns& x, const std::vector<int>& real) {
    out = {Columns(C), Columns(C), Column(C, 0), Column(C, 0), Column(C, 1), std::vector<int>(C, 0), false};
    mean.assign(C, 0);
    q.assign(C, 0);
    held.assign(C, 0);
    P = Real(real.size());
    n = 0;
    in_s.clear();
    for (int m : real) in_s.push_back(m);
    for (int m : in_s) n += m;
    // A mean needs one position, an unbiased variance two.
    const bool none = n < (o.statistic == ChannelStatistic::variance ? 2 : 1);
    for (int c = 0; c < C; ++c) {
      if (o.statistic == ChannelStatistic::variance) mean[c] = mean_over_s(x[c], 0, 1);
      q[c] = mean_over_s(x[c], mean[c], 2);
      held[c] = none || (o.form == ChannelForm::paper && o.hold_non_finite && !std::isfinite(q[c]));
    }
  }
  Real mean_over_s(const Column& x, Real center, int power) const {
    Real sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      if (in_s[i]) sum += power == 1 ? x[i] - center : (x[i] - center) * (x[i] - center);
    return sum / n;
  }

  Column window(const Columns& ring, int c) const {
    Column w;
    for (const Column& row : ring) w.push_back(row[c]);
    return w;
  }
  // Returns the lower bound that geometric_mean() applies to entries before it takes their logarithms. In the released
  // code, the bound is 0, so a single zero entry makes the GM 0.
  Real least() const { return o.form == ChannelForm::paper ? 1e-38L : 0; }

  // [UN-19]: AM(Omega_t) - GM(Omega_t) > M V(sqrt(Omega_{t-1})).
  void find_outliers() {
    const long M = o.window_forward;
    if (!o.filtration || !(released() ? t >= o.warmup : active())) return;
    Real pooled = 0, sum_d = 0, sum_threshold = 0, sum_level = 0;
    if (o.granularity == Granularity::pooled) {
      Column all;
      for (const Column& row : win_sq) all.insert(all.end(), row.begin(), row.end());
      pooled = Real(M) * variance_of_roots(all, o.ddof);
    }
    bool any = false;
    for (int c = 0; c < C; ++c) {
      if (held[c]) continue;
      // Without flag_low, q must exceed the entry that it replaces, as in the bounds of Lemma 3.1.
      if (!o.flag_low && q[c] <= win_sq[t % M][c]) continue;
      Column now = window(win_sq, c);
      now[t % M] = q[c];
      const Real level = arithmetic_mean(now), d = level - geometric_mean(now, least());
      const Real own = Real(M) * variance_of_roots(window(win_sq, c), o.ddof);
      sum_d += d;
      sum_threshold += own;
      sum_level += level;
      if (o.granularity == Granularity::layer_sum) continue;
      out.outlier[c] = fires(d, o.granularity == Granularity::pooled ? pooled : own, level);
      any = any || out.outlier[c];
    }
    if (o.granularity == Granularity::layer_sum) any = fires(sum_d, sum_threshold, sum_level);
    if (o.granularity == Granularity::channel) return;
    for (int c = 0; c < C; ++c) out.outlier[c] = any && !held[c];
  }
  // Raises the threshold by rtol, because rounding makes AM > GM even if all entries are equal.
  bool fires(Real d, Real threshold, Real level) {
    const Real limit = threshold * (1 + rtol) + rtol * level;
    if (std::fabs(d - limit) < 10 * rtol * (level + threshold)) out.close_call = true;
    return d > limit;
  }

  // Computes var_hat, the factor r and the divisor of x, and updates the state of forward passes.
  void forward(int c) {
    const Real old = run_var[c];
    if (held[c]) {  // the running estimates replace the statistics, and nothing is written
      mean[c] = run_mean[c];
      root = root_of(old);
      return;
    }
    const bool flag = out.outlier[c];
    in_a_row[c] = flag ? in_a_row[c] + 1 : 0;
    Real& slot = win_sq[t % o.window_forward][c];
    const Real replaced = slot;
    slot = q[c];
    const Real var_hat = active() && !flag ? average(c) : q[c];
    root = root_of(var_hat);
    out.r[c] = ratio(c, root / root_of(old));
    slot = flag ? old : storable(q[c]) ? q[c] : replaced;
    if (flag && o.hold_on_skip && in_a_row[c] <= 32) return;  // kLongestHold
    const Real alpha = o.alpha_forward;
    const Real variance = alpha * old + (1 - alpha) * recorded(c, var_hat);
    if (!storable(variance)) return;
    run_var[c] = variance;
    run_mean[c] = alpha * run_mean[c] + (1 - alpha) * mean[c];
  }
  Real average(int c) const {
    const Real alpha = o.alpha_forward;
    if (o.forward == ForwardAverage::none) return q[c];
    if (o.forward == ForwardAverage::exponential) return alpha * run_var[c] + (1 - alpha) * q[c];  // [UN-14]
    const Column w = window(win_sq, c);
    return o.forward == ForwardAverage::arithmetic ? arithmetic_mean(w) : geometric_mean(w, least());  // [UN-16]
  }
  // Returns the value that run_var averages: q with an exponential average, in BN the unbiased variance, else var_hat.
  Real recorded(int c, Real var_hat) const {
    if (o.forward == ForwardAverage::exponential) return q[c];
    if (o.statistic == ChannelStatistic::variance && !o.clamped_variance) return q[c] * n / (n - 1);
    return var_hat;
  }
  Real root_of(Real variance) const {
    const Real eps = o.eps;
    return std::sqrt(o.clamped_variance ? (variance < eps ? eps : variance) : variance + eps);
  }
  Real ratio(int c, Real r) const {
    const bool off = o.rescale == Rescale::none || out.outlier[c] || (released() && single());
    if (off || t <= (o.warmup > 1000 ? o.warmup : 1000)) return 1;
    return r < 0.2L ? 0.2L : r > 5 ? 5 : r;
  }

  // Computes y and all gradients.
  void finish(int c, const Column& x, const Column& dy, Real gamma, Real beta) {
    Column z, h;
    const Real r = out.r[c], r_forward = o.rescale == Rescale::both ? r : 1;
    Real sum_h = 0, sum_hz = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      z.push_back((x[i] - mean[c]) / root);
      h.push_back(dy[i] * gamma * r);
      out.y[c].push_back(gamma * r_forward * z[i] + beta);
      out.dgamma[c] += dy[i] * r * z[i];
      out.dbeta[c] += dy[i];
      sum_h += h[i];
      sum_hz += h[i] * z[i];
    }
    // In the released UN, G is a mean over all positions, and dx is corrected at all positions, including padding.
    const Real G = sum_hz / (released() ? P : n);
    const bool hold = held[c] || (o.form == ChannelForm::paper && o.hold_non_finite && !std::isfinite(G));
    const Real psi = hold ? (has_ema() ? psi_ema[c] : 0) : backward(c, G);
    const bool centers = o.statistic == ChannelStatistic::variance && !held[c];
    const Real psi_mean = centers ? sum_h / n : 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Real correction = in_s[i] || released() ? psi_mean + z[i] * psi : 0;
      out.dx[c].push_back((h[i] - correction) / root);
    }
  }
  bool has_window() const {
    return o.backward == BackwardAverage::arithmetic || o.backward == BackwardAverage::arithmetic_exponential;
  }
  bool has_ema() const {
    return o.backward == BackwardAverage::exponential || o.backward == BackwardAverage::arithmetic_exponential;
  }
  // Returns psi for the gradient statistic G, and updates the state of backward passes, win_g and psi_ema. [UN-17]
  Real backward(int c, Real G) {
    if (o.clamped_variance && q[c] < Real(o.eps)) return 0;  // the root is a constant there
    const bool flag = out.outlier[c], skip = flag || (single() && released());
    const Real before = psi_ema[c], alpha = o.alpha_backward;
    Real m = G, next = before;
    if (has_window()) {
      // At a skip, the window records psi_ema instead of G, if there is a psi_ema.
      Real& slot = win_g[t % o.window_backward][c];
      const Real replaced = slot;
      if (!skip) slot = G;
      if (skip && has_ema()) slot = before;
      if (averages(o.window_backward) && !skip) m = arithmetic_mean(window(win_g, c));
      if (!storable(slot)) slot = replaced;
    }
    if (has_ema()) {
      next = alpha * before + (1 - alpha) * m;
      if (skip && o.psi_after_skip == PsiAfterSkip::literal) next = G;
      if (skip && o.psi_after_skip == PsiAfterSkip::freeze) next = before;
      if (storable(next)) psi_ema[c] = next;
    }
    // The paper's form uses G as psi in warm-up and at outliers, the released UN only at skips.
    if (released() ? skip : flag || !active()) return G;
    return has_ema() ? next : m;
  }
};

}  // namespace foldgrad::testing
