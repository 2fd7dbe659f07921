// Tests that each normalizer computes the inference form that it declares. The forms are evaluated by hand.
#include <algorithm>
#include <numeric>

#include "tests/models/normalizers/quick_normalizer.h"

namespace foldgrad::testing {
namespace {

// Computes u, as InferenceForm::Groups defines it, for one group.
std::vector<double> statistic(const std::vector<double>& x, const InferenceForm::Groups& groups) {
  std::vector<double> u = x;
  double mean = 0, square = 0;
  for (double v : x) mean += v / double(x.size());
  for (double& v : u) v -= groups.centered ? mean : 0;
  for (double v : u) square += v * v / double(x.size());
  for (double& v : u) v /= std::sqrt(square + groups.eps);
  return u;
}

struct FormOfRow {
  const std::vector<double>& x;
  const InferenceForm& form;

  std::vector<double> operator()(std::monostate) const {
    std::vector<double> u = x;
    for (double& v : u) v -= form.map.centered ? std::accumulate(x.begin(), x.end(), 0.0) / double(x.size()) : 0;
    return u;
  }
  std::vector<double> operator()(const RmsNormOptions& rms) const {
    double square = 0;
    for (std::int64_t c = 0; c < rms.channels; ++c) square += x[std::size_t(c)] * x[std::size_t(c)];
    square /= double(rms.channels);
    return divided(rms.eps_outside ? std::sqrt(square) + rms.eps : std::sqrt(square + rms.eps));
  }
  std::vector<double> operator()(const InferenceForm::Groups& groups) const {
    const std::size_t size = x.size() / std::size_t(groups.count);
    std::vector<double> u;
    for (auto group = x.begin(); group != x.end(); group += std::ptrdiff_t(size)) {
      const std::vector<double> of = statistic({group, group + std::ptrdiff_t(size)}, groups);
      u.insert(u.end(), of.begin(), of.end());
    }
    return u;
  }
  std::vector<double> operator()(const InferenceForm::UnitLength& unit) const {
    double square = 0;
    for (double v : x) square += v * v;
    return divided(std::max(std::sqrt(square), unit.eps));
  }
  std::vector<double> operator()(const InferenceForm::Elementwise& e) const {
    std::vector<double> u = x;
    for (double& v : u)
      v = e.function == InferenceForm::Elementwise::Function::tanh ? std::tanh(e.alpha * v)
                                                                   : std::erf(e.alpha * v + e.shift);
    return u;
  }
  std::vector<double> divided(double by) const {
    std::vector<double> u = x;
    for (double& v : u) v /= by;
    return u;
  }
};

// Trains for five steps, then compares inference with the declared form. Each sample of x has one token, so the
// statistics of a sample are those of its row.
void expect_its_form(Normalizer& norm) {
  randomize(norm);
  for (unsigned t = 0; t < 5; ++t) train_step(norm, t);
  const auto form = norm.inference();
  ASSERT_TRUE(form);
  const Tensor x = randn({3, 1, kChannels}, 7), want = Tensor::empty(x.shape(), DType::f64);
  for (std::int64_t r = 0; r < 3; ++r) {
    const double* first = x.data<double>() + r * kChannels;
    const std::vector<double> row(first, first + kChannels), u = std::visit(FormOfRow{row, *form}, form->instead);
    for (std::size_t c = 0; c < row.size(); ++c)
      want.data<double>()[r * kChannels + std::int64_t(c)] = form->map.A[c] * u[c] + form->map.B[c];
  }
  EXPECT_TRUE(close(infer(norm, x), want, 1e-13));
}

TEST(InferenceForm, CN_4_IsWhatEveryNormalizerComputes) {
  for (const NormalizerInfo& info : normalizers()) {
    SCOPED_TRACE(info.name);
    const auto norm = quick_normalizer(info.name, DType::f64, Device::cpu);
    expect_its_form(*norm);
    const InferenceForm form = *norm->inference();
    EXPECT_EQ(form.offline(), info.offline());
    EXPECT_EQ(form.offline() && form.map.centered, info.inference == Inference::linear);
  }
}

TEST(InferenceForm, FollowsOptions) {
  for (const auto& [name, options] : std::vector<std::pair<std::string, Options>>{
           {"rmsnorm", {{"partial", "0.5"}}},
           {"rmsnorm", {{"eps_place", "outside"}, {"eps", "0.5"}, {"bias", "1"}}},
           {"rmsnorm", {{"eps", "0.5"}}},
           {"fixnorm", {{"length", "sqrt_channels"}}},
           {"groupnorm", {{"groups", "2"}, {"axes", "token"}, {"eps", "0.5"}}},
           {"instancenorm", {{"affine", "1"}}},
           {"pn", {{"mode", "reference"}, {"groups", "4"}, {"warmup", "2"}, {"eps", "0.5"}}},
           {"pn_star", {{"mode", "reference"}, {"warmup", "2"}}},
           {"derf", {{"shift", "0.5"}}}}) {
    SCOPED_TRACE(name);
    const auto norm = make_normalizer(name, options, "norm", kChannels, DType::f64);
    expect_its_form(*norm);
  }
}

}  // namespace
}  // namespace foldgrad::testing
