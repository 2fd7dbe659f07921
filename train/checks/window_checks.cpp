#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "train/checks/model_checks.h"

namespace foldgrad {
namespace {

using Entries = std::vector<double>;

std::int64_t item(const Normalizer& norm, const char* name) {
  return norm.state().at(name).to(Device::cpu).data<std::int64_t>()[0];
}
Entries numbers(const Normalizer& norm, const char* name) {
  return norm.state().at(name).to(Device::cpu).to(DType::f64).values<double>();
}

double arithmetic_mean(const Entries& a) {
  double sum = 0;
  for (double v : a) sum += v;
  return sum / double(a.size());
}
double geometric_mean(const Entries& a) {
  double logs = 0;
  for (double v : a) logs += std::log(v);
  return std::exp(logs / double(a.size()));
}

// The windows of a site as they are stored: the entry of iteration t is in slot t mod M.
struct WindowStatistics {
  std::int64_t M, C, iterations;
  Entries values;  // [M, C]

  explicit WindowStatistics(const Normalizer& norm)
      : M(norm.state().at("win_sq").shape()[0]),
        C(norm.channels()),
        iterations(item(norm, "iters")),
        values(numbers(norm, "win_sq")) {}

  bool full() const { return M > 1 && iterations > M; }
  std::int64_t slot_of(std::int64_t iteration) const { return iteration % M; }
  Entries of(std::int64_t c) const {
    Entries window;
    for (std::int64_t m = 0; m < M; ++m) window.push_back(values[std::size_t(m * C + c)]);
    return window;
  }
};

// Returns the lower bound of run_var that check_windows() explains.
double least_running(const Normalizer& norm, const WindowStatistics& windows, std::int64_t c) {
  const Entries window = windows.of(c);
  const double alpha = norm.options().number("alpha"), least = *std::ranges::min_element(window);
  if (!norm.info().outlier_test || item(norm, "skips") > 0) return std::min(alpha, 1 - alpha) * least;
  const bool averaged = windows.full() && windows.iterations >= norm.options().integer("warmup");
  return (1 - alpha) * (averaged && norm.options().text("forward_average") == "geometric" ? geometric_mean(window)
                        : averaged                                                        ? least
                                   : window[std::size_t(windows.slot_of(windows.iterations))]);
}

// Runs an iteration with a single position, whose squares are `q`. So `q` becomes the iteration's statistics.
void run_iteration(Normalizer& norm, const Entries& q) {
  Entries x = q;
  for (double& v : x) v = std::sqrt(v);
  Tape tape(/*recording=*/false);
  norm.apply(tape.constant(Tensor::of({1, norm.channels()}, x)), {.training = true});
}

// The outcome of the test [UN-19] when entry `slot` of the window becomes q; `undecided` if rounding could change it.
enum class Verdict { usual, outlier, undecided };
Verdict verdict(const NormalizerOptions& options, const Entries& before, std::size_t slot, double q) {
  if (!options.flag("flag_low") && q <= before[slot]) return Verdict::usual;
  Entries after = before, roots = before;
  after[slot] = q;
  for (double& r : roots) r = std::sqrt(r);
  const double M = double(before.size()), mean = arithmetic_mean(roots);
  double squares = 0;
  for (double r : roots) squares += (r - mean) * (r - mean);
  const double level = arithmetic_mean(after), distance = level - geometric_mean(after),
               threshold = M * squares / (M - double(options.integer("ddof")));
  if (std::abs(distance - threshold) <= 1e-6 * (level + threshold)) return Verdict::undecided;
  return distance > threshold ? Verdict::outlier : Verdict::usual;
}

bool lemma_holds(const Entries& before, std::size_t slot, double q) {
  Entries after = before;
  after[slot] = q;
  const double M = double(before.size()), u = std::pow(before[slot] / q, 1 / M), lambda = geometric_mean(after) / q;
  double f = 0;
  for (std::size_t k = 0; k < before.size(); ++k) f += std::pow(u, double(k)) / M;
  return q > before[slot] ? lambda < f && f < 1 : lambda > f && f > 1;
}

std::string iterations_skipped(const std::vector<Normalizer*>& sites) {
  double most = 0;
  std::string where;
  for (const Normalizer* norm : sites) {
    if (!norm->state().contains("win_sq") || item(*norm, "iters") == 0) continue;
    const double share = double(item(*norm, "skips")) / double(item(*norm, "iters"));
    if (share > most) most = share, where = norm->site();
  }
  return where.empty() ? "no iteration was skipped"
                       : fmt::format("up to {:.2g} % of iterations were skipped ({})", 100 * most, where);
}

}  // namespace

CheckResult check_windows(const std::vector<Normalizer*>& sites) {
  constexpr const char* kName = "running variances agree with the windows of statistics";
  constexpr double kRounding = 1e-5;  // some epsilons of a state in f32
  std::int64_t channels = 0, wrong = 0;
  double least = std::numeric_limits<double>::infinity(), greatest = 0;
  std::string first;
  for (const Normalizer* norm : sites) {
    if (!norm->state().contains("win_sq")) continue;
    const WindowStatistics windows(*norm);
    if (!windows.full()) continue;
    const Entries running = numbers(*norm, "run_var");
    for (std::int64_t c = 0; c < windows.C; ++c) {
      const Entries window = windows.of(c);
      const double run = running[std::size_t(c)], bound = least_running(*norm, windows, c),
                   ratio = run / arithmetic_mean(window);
      ++channels;
      least = std::min(least, ratio), greatest = std::max(greatest, ratio);
      if (run >= bound * (1 - kRounding) && *std::ranges::min_element(window) >= 0) continue;
      if (wrong++ == 0)
        first = fmt::format(", first in {} channel {}: {:.3g}, but the window requires at least {:.3g}", norm->site(),
                            c, run, bound);
    }
  }
  if (channels == 0) return check_skipped(kName, "no site has a full window");
  return check_that(kName, wrong == 0,
                    wrong ? fmt::format("{} of {} channels disagree{}", wrong, channels, first)
                          : fmt::format("{:.2g} to {:.2g} times the mean of the window in {} channels; {}", least,
                                        greatest, channels, iterations_skipped(sites)));
}

OwnedNormalizers outlier_tests(Model& model, const std::string& granularity) {
  OwnedNormalizers tests;
  for (const Normalizer* norm : model.normalizers()) {
    if (!norm->info().outlier_test || norm->options().text("mode") != "paper" || !norm->state().contains("win_sq"))
      continue;
    if (!WindowStatistics(*norm).full()) continue;
    std::map<std::string, std::string> options = norm->options().all();
    options.insert_or_assign("filtration", "1");
    options.insert_or_assign("warmup", "0");
    options.insert_or_assign("granularity", granularity);
    tests.push_back(make_normalizer(norm->info().name, options, norm->site(), norm->channels(), DType::f64));
    NamedTensors state = norm->snapshot();
    for (auto& [name, tensor] : state)
      if (is_floating(tensor.dtype())) tensor = tensor.to(DType::f64);
    tests.back()->restore(state);
  }
  return tests;
}

CheckResult check_replays(const OwnedNormalizers& sites) {
  constexpr const char* kName = "replayed statistics are not outliers of their channel (Eq. 18)";
  std::int64_t iterations = 0, fired = 0;
  for (const auto& norm : sites) {
    const std::int64_t before = item(*norm, "skips");
    const WindowStatistics windows(*norm);
    for (std::int64_t t = windows.iterations + 1; t <= windows.iterations + windows.M; ++t, ++iterations) {
      Entries q;
      for (std::int64_t c = 0; c < windows.C; ++c) q.push_back(windows.of(c)[std::size_t(windows.slot_of(t))]);
      run_iteration(*norm, q);
    }
    fired += item(*norm, "skips") - before;
  }
  if (iterations == 0) return check_skipped(kName, "no site with mode = paper has full windows");
  return check_that(kName, fired == 0,
                    fmt::format("{} of {} iterations at {} sites were outliers", fired, iterations, sites.size()));
}

CheckResult check_outliers(const OwnedNormalizers& sites) {
  constexpr const char* kName = "outliers of each channel match Eq. 19 and satisfy Lemma 3.1";
  constexpr int kIterations = 8;
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> decades(-3, 3);
  std::int64_t drawn = 0, outliers = 0, otherwise = 0, lemma = 0;
  for (const auto& norm : sites)
    for (int k = 0; k < kIterations; ++k) {
      const WindowStatistics before(*norm);
      const auto slot = std::size_t(before.slot_of(before.iterations + 1));
      const Entries running = numbers(*norm, "run_var");
      Entries q;
      for (std::int64_t c = 0; c < before.C; ++c) {
        const double replaced = before.of(c)[slot];
        q.push_back((replaced > 0 ? replaced : 1) * std::pow(10, decades(random)));
      }
      run_iteration(*norm, q);
      const WindowStatistics after(*norm);
      for (std::int64_t c = 0; c < before.C; ++c) {
        const auto i = std::size_t(c);
        const Entries window = before.of(c);
        const Verdict want = verdict(norm->options(), window, slot, q[i]);
        // For an outlier, run_var enters the window instead of q.
        const double recorded = after.of(c)[slot];
        const bool fired = std::abs(recorded - q[i]) > 1e-9 * q[i];
        if (want == Verdict::undecided || std::abs(running[i] - q[i]) <= 1e-9 * q[i]) continue;
        ++drawn, outliers += fired;
        otherwise += fired != (want == Verdict::outlier);
        if (fired && *std::ranges::min_element(window) > 0) lemma += !lemma_holds(window, slot, q[i]);
      }
    }
  if (outliers + otherwise == 0) return check_skipped(kName, "no drawn value is an outlier of a full window");
  return check_that(
      kName, otherwise == 0 && lemma == 0,
      fmt::format("of {} drawn values, {} were outliers; {} contradict Eq. 19, and {} contradict the lemma", drawn,
                  outliers, otherwise, lemma));
}

}  // namespace foldgrad
