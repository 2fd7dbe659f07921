// Random training histories, on which tests compare channel_norm and power_norm with their models. RapidCheck shrinks a
// failing history to few steps, channels and rows, and to simple options. The last functions compare tensors with the
// models' numbers.
#pragma once
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <stdexcept>

#include "tests/harness/generators.h"
#include "tests/ops/channel_norm_model.h"

namespace foldgrad::testing {

struct HistoryStep {
  std::vector<Entries> x, dy;  // [C][P]
  std::size_t counted;         // number of leading rows that are not padding
};
// The options, parameters and steps of a training run. `Kind` describes the options of one operation with the type
// `Options` and the functions `draw(Draws&)`, `edits(Options)`, `text(Options)` and `allows(Options)`. The last returns
// false if the operation rejects the options or its result is undefined. x may contain NaN and infinity if
// `allows_non_finite(Options)` returns true. Half of the histories take `start` from `late_start(Draws&)`.
template <class Kind>
struct History {
  typename Kind::Options options;
  long start = 0;  // number of iterations before the first step
  Entries gamma, beta;
  std::vector<HistoryStep> steps;

  std::size_t channels() const { return gamma.size(); }
  std::size_t rows() const { return steps[0].x[0].size(); }
};

// Draws the random parts of histories.
class Draws {
 public:
  explicit Draws(Rng& rng) : rng_(rng) {}
  int below(int n) { return testing::below(rng_, n); }
  bool coin() { return below(2) == 1; }
  double normal() { return normal_(rng_); }
  template <class T, std::size_t n>
  T one_of(const T (&values)[n]) {
    return values[below(int(n))];
  }

  Entries normals(int n) {
    Entries all(static_cast<std::size_t>(n));
    for (double& v : all) v = normal();
    return all;
  }
  // Returns a step with P values per channel. Their magnitude is the channel's level. In some steps, the level is first
  // multiplied by a factor from 0 to 400.
  HistoryStep step(int P, const Entries& levels, bool padded, bool non_finite) {
    const double jumps[] = {1, 1, 1, 1, 1, 1.5, 20, 400, 1e-3, 0};
    const double jump_of_all = one_of(jumps);
    HistoryStep step{{}, {}, std::size_t(P)};
    for (double level : levels) {
      const double jump = below(4) ? jump_of_all : one_of(jumps);
      step.x.push_back(normals(P));
      for (double& v : step.x.back()) v *= level * jump;
      if (non_finite && below(30) == 0) step.x.back()[std::size_t(below(P))] = coin() ? INFINITY : NAN;
    }
    for (std::size_t c = 0; c < levels.size(); ++c) step.dy.push_back(normals(P));
    if (padded) step.counted = std::size_t(below(P + 1));
    return step;
  }

 private:
  Rng& rng_;
  std::normal_distribution<double> normal_;
};

// Returns a history of 4 to 27 steps with 1 to 4 channels.
template <class Kind>
History<Kind> draw_history(Rng& rng) {
  Draws random(rng);
  History<Kind> h{Kind::draw(random), random.coin() ? 0 : Kind::late_start(random), {}, {}, {}};
  const int P = random.below(20) ? 1 + random.below(6) : 60 + random.below(90), C = 1 + random.below(4),
            steps = 4 + random.below(24);
  const bool padded = random.coin(), non_finite = Kind::allows_non_finite(h.options) && random.below(3) == 0;
  Entries levels = random.normals(C);
  for (double& level : levels) level = std::exp(level);
  h.gamma = random.normals(C);
  h.beta = random.normals(C);
  for (int s = 0; s < steps; ++s) h.steps.push_back(random.step(P, levels, padded, non_finite));
  return h;
}

// Returns four groups of pointers: to all x, all dy, gamma and beta.
template <class Kind>
std::vector<std::vector<double*>> numbers_of(History<Kind>& h) {
  std::vector<std::vector<double*>> groups(4);
  for (HistoryStep& step : h.steps)
    for (std::size_t c = 0; c < h.channels(); ++c)
      for (std::size_t p = 0; p < h.rows(); ++p) {
        groups[0].push_back(&step.x[c][p]);
        groups[1].push_back(&step.dy[c][p]);
      }
  for (double& v : h.gamma) groups[2].push_back(&v);
  for (double& v : h.beta) groups[3].push_back(&v);
  return groups;
}

template <class Container>
void erase(Container& all, std::size_t begin, std::size_t end) {
  all.erase(all.begin() + std::ptrdiff_t(begin), all.begin() + std::ptrdiff_t(end));
}

template <class Kind>
std::vector<Edit<History<Kind>>> edits_of(const History<Kind>& history) {
  using H = History<Kind>;
  std::vector<Edit<H>> edits;
  add_edits_of_length<H>(edits, history.steps.size(), [](H& h, std::size_t begin, std::size_t end) {
    erase(h.steps, begin, end);
    return true;
  });
  add_edits_of_length<H>(edits, history.channels(), [](H& h, std::size_t begin, std::size_t end) {
    for (Entries* all : {&h.gamma, &h.beta}) erase(*all, begin, end);
    for (HistoryStep& step : h.steps)
      for (std::vector<Entries>* all : {&step.x, &step.dy}) erase(*all, begin, end);
    return true;
  });
  add_edits_of_length<H>(edits, history.rows(), [](H& h, std::size_t begin, std::size_t end) {
    for (HistoryStep& step : h.steps) {
      for (std::vector<Entries>* all : {&step.x, &step.dy})
        for (Entries& channel : *all) erase(channel, begin, end);
      step.counted -= std::min(step.counted, end) - std::min(step.counted, begin);
    }
    return true;
  });
  edits.push_back([](H& h) { return std::exchange(h.start, 0) != 0; });
  for (const Edit<typename Kind::Options>& edit : Kind::edits(history.options))
    edits.push_back([edit](H& h) { return edit(h.options); });
  edits.push_back([](H& h) {  // remove the padding
    bool padded = false;
    for (HistoryStep& step : h.steps) padded = std::exchange(step.counted, h.rows()) != h.rows() || padded;
    return padded;
  });
  H sizes = history;
  const std::vector<std::vector<double*>> groups = numbers_of(sizes);
  for (std::size_t g = 0; g < groups.size(); ++g)
    add_edits_of_numbers<H>(edits, groups[g].size(), [g](H& h) { return numbers_of(h)[g]; });
  for (Edit<H>& edit : edits) edit = [edit](H& h) { return edit(h) && Kind::allows(h.options); };
  return edits;
}

template <class Kind>
rc::Gen<History<Kind>> any_history() {
  return shrinking<History<Kind>>(draw_history<Kind>, edits_of<Kind>).as("history");
}

template <class Kind>
void showValue(const History<Kind>& h, std::ostream& out) {
  out << fmt::format("{}; gamma [{}], beta [{}]", Kind::text(h.options), fmt::join(h.gamma, ", "),
                     fmt::join(h.beta, ", "));
  if (h.start > 0) out << fmt::format(", after {} iterations", h.start);
  for (std::size_t s = 0; s < h.steps.size(); ++s) {
    const HistoryStep& step = h.steps[s];
    out << fmt::format("\n  step {}:", s + 1);
    for (std::size_t c = 0; c < h.channels(); ++c)
      out << fmt::format(" x [{}], dy [{}];", fmt::join(step.x[c], ", "), fmt::join(step.dy[c], ", "));
    if (step.counted < h.rows()) out << fmt::format(" rows that count: {}", step.counted);
  }
}

inline Column column(const Entries& a) { return Column(a.begin(), a.end()); }
inline Columns columns(const std::vector<Entries>& all) {
  Columns result;
  for (const Entries& a : all) result.push_back(column(a));
  return result;
}
// Returns 1 for each of the first `counted` rows, and 0 for each padding row.
inline std::vector<int> real_rows(std::size_t rows, std::size_t counted) {
  std::vector<int> real(rows, 1);
  std::fill(real.begin() + std::ptrdiff_t(counted), real.end(), 0);
  return real;
}
inline Tensor matrix(const std::vector<Entries>& columns) {
  const std::size_t C = columns.size(), P = columns[0].size();
  std::vector<double> values(P * C);
  for (std::size_t c = 0; c < C; ++c)
    for (std::size_t p = 0; p < P; ++p) values[p * C + c] = columns[c][p];
  return Tensor::of({std::int64_t(P), std::int64_t(C)}, values);
}
inline Tensor vector(const Entries& a) { return Tensor::of<double>({std::int64_t(a.size())}, a); }

// Throws if `got` differs from the model's numbers, `want`. Where the model has infinity or NaN, `got` may have either.
inline void compare(const std::string& what, const Tensor& got, const std::vector<Real>& want) {
  const std::vector<double> values = got.values<double>();
  for (std::size_t i = 0; i < want.size(); ++i) {
    const bool same = std::isfinite(want[i]) ? std::fabs(values[i] - want[i]) <= kTolerance * (1 + std::fabs(want[i]))
                                             : !std::isfinite(values[i]);
    if (!same) throw std::runtime_error(fmt::format("{}[{}]: got {}, want {}", what, i, values[i], double(want[i])));
  }
}
inline std::vector<Real> rows_of(const Columns& columns) {
  std::vector<Real> all;
  for (std::size_t p = 0; p < columns[0].size(); ++p)
    for (const Column& column : columns) all.push_back(column[p]);
  return all;
}

}  // namespace foldgrad::testing
