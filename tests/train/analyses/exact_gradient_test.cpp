#include "train/analyses/exact_gradient.h"

#include <gtest/gtest.h>

#include <cmath>

#include "models/normalizers/normalizer.h"
#include "tests/harness/compare.h"

namespace foldgrad::testing {
namespace {

constexpr std::int64_t kRows = 5, kChannels = 3;
constexpr std::int64_t kCounted = 4;  // of the rows; the last is padding

class Pass {
 public:
  Pass(const std::string& name, const std::map<std::string, std::string>& options)
      : norm_(make_normalizer(name, options, "norm", kChannels, DType::f64)) {
    for (Parameter* p : norm_->parameters()) p->value.copy_from(randn({kChannels}, 7, 1, 1));
  }

  // Passes whose mean squares grow in the first two channels and fall in the third.
  Tensor x(int step) const {
    const Tensor x = randn({kRows, kChannels}, 11);
    for (std::int64_t i = 0; i < x.size(); ++i) x.data<double>()[i] *= std::pow(i % kChannels == 2 ? 0.8 : 1.3, step);
    return x;
  }
  // Zero at padding.
  Tensor dy(int step) const {
    const Tensor dy = randn({kRows, kChannels}, unsigned(20 + step));
    for (std::int64_t i = 0; i < dy.size(); ++i)
      if (i / kChannels >= kCounted) dy.data<double>()[i] = 0;
    return dy;
  }
  Tensor backward(int step) {
    Tape tape;
    const Var in = tape.variable(x(step));
    tape.backward(norm_->apply(in, context()), dy(step));
    return tape.grad(in);
  }
  // By central differences of sum dy y, from the state before the pass.
  Tensor exact(int step) {
    const NamedTensors before = norm_->snapshot();
    const Tensor gradient = Tensor::empty({kRows, kChannels}, DType::f64), weights = dy(step);
    for (std::int64_t i = 0; i < gradient.size(); ++i) {
      const auto loss = [&](double h) {
        const Tensor moved = x(step);
        moved.data<double>()[i] += h;
        Tape tape(/*recording=*/false);
        const Tensor y = norm_->apply(tape.constant(moved), context()).value();
        norm_->restore(before);
        double sum = 0;
        for (std::int64_t k = 0; k < y.size(); ++k) sum += y.data<double>()[k] * weights.data<double>()[k];
        return sum;
      };
      gradient.data<double>()[i] = (loss(1e-5) - loss(-1e-5)) / 2e-5;
    }
    return gradient;
  }
  GradientAgreement recorded(int step, Tensor& dx) {
    ChannelRecords records;
    norm_->record_into(&records);
    dx = backward(step);
    norm_->record_into(nullptr);
    return gradient_agreement(channel_values(*records.at(0)));
  }

 private:
  NormContext context() const { return {.training = true, .counted = kCounted}; }

  std::unique_ptr<Normalizer> norm_;
};

double product(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.size(); ++i) sum += a.data<double>()[i] * b.data<double>()[i];
  return sum;
}

struct Case {
  std::string name;
  std::map<std::string, std::string> options;
  double lambda_below_1;  // -1: var_hat is no average
  bool estimate;          // whether dx is none of the exact gradient
};

// Central differences are good to some 1e-9 here.
TEST(ExactGradient, CosineAndNormsAreThoseOfCentralDifferences) {
  const std::vector<Case> cases = {{"un", {{"warmup", "1"}, {"window", "2"}}, 2. / 3, true},
                                   {"un", {{"warmup", "1"}, {"window", "3"}, {"forward_average", "none"}}, -1, true},
                                   {"un", {{"warmup", "100"}, {"window", "2"}}, -1, false},
                                   {"mabn", {{"warmup", "1"}}, 2. / 3, true},
                                   {"pn_star", {{"warmup", "1"}}, 2. / 3, true},
                                   {"qmbn", {}, -1, false}};
  for (const Case& of : cases) {
    Pass pass(of.name, of.options);
    for (int step = 0; step < 20; ++step) pass.backward(step % 5);
    Tensor dx;
    const Tensor exact = pass.exact(5);
    const GradientAgreement got = pass.recorded(5, dx);
    const double cosine = product(dx, exact) / std::sqrt(product(dx, dx) * product(exact, exact));
    EXPECT_NEAR(got.cosine, cosine, 1e-7) << of.name;
    EXPECT_NEAR(got.norm_ratio, std::sqrt(product(dx, dx) / product(exact, exact)), 1e-7) << of.name;
    EXPECT_EQ(std::abs(cosine - 1) > 1e-4, of.estimate) << of.name << ": " << cosine;
    if (of.lambda_below_1 == -1) {
      EXPECT_TRUE(std::isnan(got.lambda_below_1)) << of.name;
    } else {
      EXPECT_NEAR(got.lambda_below_1, of.lambda_below_1, 1e-15) << of.name;
    }
  }
}

}  // namespace
}  // namespace foldgrad::testing
