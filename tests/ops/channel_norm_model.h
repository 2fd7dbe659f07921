// The normalizers of ops/channel_norm as plain loops over one step after the other in long double, written from the
// specification and sharing no formula with the operation. It keeps whole histories instead of rings where it can.
#pragma once
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "ops/channel_norm/channel_norm_options.h"

namespace foldgrad::testing {

using Real = long double;
using Column = std::vector<Real>;

// How far the operation may be from the model: kTolerance (1 + |value|).
constexpr Real kTolerance = 1e-9L;

struct ModelStep {
  std::vector<Column> y, dx;  // [C][P]
  Column dgamma, dbeta;       // [C]
  bool close_call = false;    // rounding could decide an outlier test otherwise, or undo what is left of nu_ema
};

class ChannelNormModel {
 public:
  ChannelNormModel(const ChannelNormOptions& options, int channels, Real tolerance, long start_iters = 0)
      : o(options), C(channels), rtol(options.form == ChannelForm::released ? 0 : tolerance), t(start_iters) {
    run_mean.assign(C, 0);
    run_var.assign(C, 1);
    psi_ema.assign(C, 0);
    nu_error.assign(C, 0);
    win_sq.assign(o.window_forward, Column(C, 0));
    win_g.assign(o.window_backward, Column(C, 0));
  }

  Column run_mean, run_var, psi_ema;  // run_var is phi and psi_ema is nu_ema of PowerNorm
  std::vector<Column> win_sq, win_g;
  long skips = 0;

  ModelStep step(const std::vector<Column>& x, const std::vector<Column>& dy, const std::vector<int>& real,
                 const Column& gamma, const Column& beta) {
    ++t;
    result = {x, dy, Column(C), Column(C), false};
    mask = o.mask == StatisticMask::all ? std::vector<int>(real.size(), 1) : real;
    n = std::accumulate(mask.begin(), mask.end(), 0);
    P = int(real.size());
    statistics(x);
    decide_outliers();
    bool counted = false;
    for (int c = 0; c < C; ++c) {
      counted = counted || outlier[c] || held[c];
      normalise(c, x[c], gamma[c], beta[c]);
      differentiate(c, x[c], dy[c], gamma[c]);
    }
    skips += counted;
    return result;
  }

 private:
  ChannelNormOptions o;
  int C, P = 0, n = 0;
  Real rtol;
  long t;
  std::vector<int> mask;
  Column m, q, nu_error;
  std::vector<int> outlier, held;
  ModelStep result;
  Real z_scale = 0, mu = 0, var_hat = 0, r = 1, dx_scale = 0;

  bool released() const { return o.form == ChannelForm::released; }
  bool ring() const { return o.forward == ForwardAverage::geometric || o.forward == ForwardAverage::arithmetic; }
  bool ring_back() const {
    return o.backward == BackwardAverage::arithmetic || o.backward == BackwardAverage::arithmetic_exponential;
  }
  bool ema_back() const {
    return o.backward == BackwardAverage::exponential || o.backward == BackwardAverage::arithmetic_exponential;
  }
  bool averages() const {
    if (t < o.warmup) return false;
    return !ring() || (t > o.window_forward && o.window_forward > 1);
  }

  void statistics(const std::vector<Column>& x) {
    m.assign(C, 0);
    q.assign(C, 0);
    held.assign(C, 0);
    for (int c = 0; c < C; ++c) {
      const bool variance = o.statistic == ChannelStatistic::variance;
      for (int i = 0; i < P && variance; ++i) m[c] += mask[i] ? x[c][i] / n : 0;
      for (int i = 0; i < P; ++i) q[c] += mask[i] ? (x[c][i] - m[c]) * (x[c][i] - m[c]) / n : 0;
      held[c] = n < (variance ? 2 : 1) || (o.hold_non_finite && !std::isfinite(q[c]));
    }
  }

  static Real arithmetic(const Column& a) { return std::accumulate(a.begin(), a.end(), Real(0)) / a.size(); }
  Real geometric(const Column& a) const {
    Real log_sum = 0;
    for (Real v : a) log_sum += std::log(released() ? v : std::max(v, Real(1e-38L)));
    return std::exp(log_sum / a.size());
  }
  Real variance_of_roots(const Column& a) const {
    Column roots;
    for (Real v : a) roots.push_back(std::sqrt(v));
    const Real centre = arithmetic(roots);
    Real sum = 0;
    for (Real v : roots) sum += (v - centre) * (v - centre);
    return sum / (Real(a.size()) - o.ddof);
  }
  Column window(int c) const {
    Column a;
    for (const Column& row : win_sq) a.push_back(row[c]);
    return a;
  }
  Column window_with_q(int c) const {
    Column a = window(c);
    a[t % o.window_forward] = q[c];
    return a;
  }

  bool fires(Real distance, Real threshold, Real level) {
    const Real limit = threshold * (1 + rtol) + rtol * level;
    if (std::fabs(distance - limit) <= 1e-7L * (std::fabs(distance) + limit) + 1e-11L * level) result.close_call = true;
    return distance > limit;
  }
  void decide_outliers() {
    outlier.assign(C, 0);
    if (!o.filtration || t < o.warmup || (!released() && !averages())) return;
    Column all, d(C, 0), thr(C, 0), level(C, 0);
    std::vector<int> takes_part(C, 0);
    for (int c = 0; c < C; ++c) {
      for (Real v : window(c)) all.push_back(v);
      if ((o.hold_non_finite && !std::isfinite(q[c])) || held[c]) continue;
      if (!o.flag_low && q[c] <= win_sq[t % o.window_forward][c]) continue;
      takes_part[c] = 1;
      level[c] = arithmetic(window_with_q(c));
      d[c] = level[c] - geometric(window_with_q(c));
      thr[c] = o.window_forward * variance_of_roots(window(c));
    }
    const Real pooled = o.window_forward * variance_of_roots(all);
    bool layer = false;
    if (o.granularity == Granularity::layer_sum) {
      layer = fires(std::accumulate(d.begin(), d.end(), Real(0)), std::accumulate(thr.begin(), thr.end(), Real(0)),
                    std::accumulate(level.begin(), level.end(), Real(0)));
    } else {
      for (int c = 0; c < C; ++c) {
        if (!takes_part[c]) continue;
        outlier[c] = fires(d[c], o.granularity == Granularity::pooled ? pooled : thr[c], level[c]);
        layer = layer || outlier[c];
      }
    }
    if (o.granularity == Granularity::channel) return;
    for (int c = 0; c < C; ++c) outlier[c] = layer && !held[c];
  }

  Real root(Real variance) const {
    return o.clamped_variance ? std::sqrt(std::max(variance, Real(o.eps))) : std::sqrt(variance + Real(o.eps));
  }

  void normalise(int c, const Column& x, Real gamma, Real beta) {
    const Real before = run_var[c], alpha = o.alpha_forward;
    mu = o.statistic == ChannelStatistic::variance ? (held[c] ? run_mean[c] : m[c]) : 0;
    r = 1;
    var_hat = held[c] ? before : q[c];
    if (!held[c]) {
      if (o.form == ChannelForm::power) {
        if (t > o.warmup) var_hat = before;
        Real phi = before;
        if (t < o.warmup) phi = phi * (t - 1) / t + q[c] / t;
        run_var[c] = alpha * phi + (1 - alpha) * q[c];
      } else {
        const bool smooth = averages() && !outlier[c];
        if (smooth && o.forward == ForwardAverage::geometric) var_hat = geometric(window_with_q(c));
        if (smooth && o.forward == ForwardAverage::arithmetic) var_hat = arithmetic(window_with_q(c));
        if (smooth && o.forward == ForwardAverage::exponential) var_hat = alpha * before + (1 - alpha) * q[c];
        if (ring()) win_sq[t % o.window_forward][c] = outlier[c] ? before : q[c];
        const bool plain = t <= std::max(1000L, long(o.warmup)) || outlier[c] || (released() && o.window_forward == 1);
        if (o.rescale != Rescale::none && !plain) r = std::min(std::max(root(var_hat) / root(before), 0.2L), 5.0L);
        if (!(outlier[c] && o.hold_on_skip)) {
          Real recorded = o.forward == ForwardAverage::exponential ? q[c] : var_hat;
          if (o.statistic == ChannelStatistic::variance) {
            run_mean[c] = alpha * run_mean[c] + (1 - alpha) * m[c];
            if (!o.clamped_variance) recorded *= Real(n) / (n - 1);
          }
          run_var[c] = alpha * before + (1 - alpha) * recorded;
        }
      }
    }
    z_scale = 1 / root(var_hat);
    dx_scale = o.form == ChannelForm::power && !held[c] ? 1 / root(q[c]) : z_scale;
    for (int i = 0; i < P; ++i)
      result.y[c][i] = gamma * (o.rescale == Rescale::both ? r : 1) * (x[i] - mu) * z_scale + beta;
  }

  void differentiate(int c, const Column& x, const Column& dy, Real gamma) {
    Real sum_h = 0, sum_hz = 0;
    result.dgamma[c] = result.dbeta[c] = 0;
    for (int i = 0; i < P; ++i) {
      const Real z = (x[i] - mu) * z_scale, h = dy[i] * gamma * r;
      sum_h += h;
      sum_hz += h * z;
      result.dgamma[c] += dy[i] * r * z;
      result.dbeta[c] += dy[i];
    }
    const bool over_real = o.form == ChannelForm::paper;
    const Real count = over_real ? n : P, G = sum_hz / count;
    const Real psi_mean = o.statistic == ChannelStatistic::variance && !held[c] ? sum_h / count : 0;
    const Real psi = o.form == ChannelForm::power ? power(c, x, dy, gamma) : psi_of(c, G);
    for (int i = 0; i < P; ++i) {
      const Real z = (x[i] - mu) * z_scale, h = dy[i] * gamma * r;
      result.dx[c][i] = (h - (mask[i] || !over_real ? psi_mean + psi * z : 0)) * dx_scale;
    }
  }
  Real psi_of(int c, Real G) {
    if (held[c] || (o.hold_non_finite && !std::isfinite(G))) return ema_back() ? psi_ema[c] : 0;
    if (o.clamped_variance && q[c] <= Real(o.eps)) return 0;
    const bool skip = outlier[c] || (released() && ring() && o.window_forward == 1);
    Real average = G;
    if (ring_back()) {
      if (!skip || ema_back()) win_g[t % o.window_backward][c] = skip ? psi_ema[c] : G;
      if (!skip && t > o.window_backward && t >= o.warmup) {
        average = 0;
        for (const Column& row : win_g) average += row[c] / o.window_backward;
      }
    }
    const Real old = psi_ema[c];
    if (ema_back()) psi_ema[c] = o.alpha_backward * old + (1 - Real(o.alpha_backward)) * average;
    if (skip && o.psi_after_skip == PsiAfterSkip::literal && ema_back()) psi_ema[c] = G;
    if (skip && o.psi_after_skip == PsiAfterSkip::freeze && ema_back()) psi_ema[c] = old;
    if (skip || o.backward == BackwardAverage::none || (!released() && !averages())) return G;
    return ema_back() ? psi_ema[c] : average;
  }
  Real power(int c, const Column& x, const Column& dy, Real gamma) {
    const Real nu = psi_ema[c], weight = 1 - Real(o.alpha_backward);
    if (held[c]) return weight * nu;
    Real kept = 1, terms = std::fabs(nu);
    for (int i = 0; i < P; ++i) {
      const Real z = x[i] * z_scale;
      psi_ema[c] += (gamma * dy[i] - weight * nu * z) * z / P;
      kept -= weight * z * z / P;
      terms += std::fabs(gamma * dy[i] * z / P) + std::fabs(weight * nu * z * z / P);
    }
    // nu_ema is no average: it can grow a million times and come back, and the error of f64 stays behind.
    const auto drowned = [&](Real error, Real value) { return error > kTolerance / 2 * (1 + std::fabs(value)); };
    for (int i = 0; i < P; ++i) {
      const Real slope = weight * x[i] * z_scale * dx_scale;
      if (drowned(std::fabs(slope) * nu_error[c], gamma * dy[i] * dx_scale - slope * nu)) result.close_call = true;
    }
    nu_error[c] = std::fabs(kept) * nu_error[c] + 1e-15L * terms;
    if (drowned(nu_error[c], psi_ema[c])) result.close_call = true;
    return weight * nu;
  }
};

}  // namespace foldgrad::testing
