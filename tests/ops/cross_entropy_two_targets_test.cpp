// Rows of two targets; the operation's specification is in cross_entropy_test.cpp.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/cross_entropy/cross_entropy.h"
#include "tests/harness/op_spec.h"
#include "tests/harness/properties.h"

namespace foldgrad::testing {
namespace {

struct Result {
  Tensor loss, dz;
};

Result result_of(const Tensor& logits, const std::vector<Tensor>& targets, const CrossEntropyOptions& options,
                 Device device = Device::cpu) {
  Tape tape;
  const Var z = tape.variable(logits.to(device));
  std::vector<Var> t;
  for (const Tensor& tensor : targets) t.push_back(tape.constant(tensor.to(device)));
  const Var loss = t.size() == 1 ? cross_entropy(z, t[0], options) : cross_entropy(z, t[0], t[1], t[2], options);
  tape.backward(loss);
  return {loss.value().to(Device::cpu), tape.grad(z).to(Device::cpu)};
}

// p = (1/8, 2/8, 5/8) with the classes 1 and 2, p = 1/3 everywhere with 2 and 0, the first row with 1 twice, and one
// that is ignored. eps = 1/2, so eps_i = 1/4 and a class has 1/4 of its share beside 1/4.
TEST(CrossEntropy, CE_5_CE_6_WorkedByHand) {
  const double ln2 = std::log(2), ln5 = std::log(5), ln8 = std::log(8), ln3 = std::log(3);
  const Tensor logits = Tensor::of<double>({4, 3}, {0, ln2, ln5, 4, 4, 4, 0, ln2, ln5, 1, 2, 3});
  const std::vector<Tensor> targets = {Tensor::of<std::int64_t>({4}, {1, 2, 1, -100}),
                                       Tensor::of<std::int64_t>({4}, {2, 0, 1, 99}),
                                       Tensor::of<float>({4}, {0.25, 0.5, 0.75, 9})};
  const double of_1 = ln8 / 4 + 2 * ln2 / 2 + (ln8 - ln5) / 4, of_2 = ln8 / 4 + 2 * ln2 / 4 + (ln8 - ln5) / 2;
  const Tensor dz = Tensor::of<double>({4, 3}, {-1 / 8., -1 / 16., 3 / 16., 1 / 3. - 3 / 8., 1 / 3. - 1 / 4.,
                                                1 / 3. - 3 / 8., -1 / 8., -1 / 4., 3 / 8., 0, 0, 0});
  for (Device device : devices()) {
    const Result got = result_of(logits, targets, {.label_smoothing = 0.5, .reduction = Reduction::sum}, device);
    EXPECT_NEAR(got.loss.item(), 0.25 * of_1 + 0.75 * of_2 + ln3 + of_1, 1e-15 * 8);
    EXPECT_TRUE(close(got.dz, dz, 1e-15));
    EXPECT_NEAR(result_of(logits, targets, {.label_smoothing = 0.5}, device).loss.item(), got.loss.item() / 3, 1e-15);
  }
}

// With all of the share on one side the bits are those of one target, and the other class may be of logit -infinity.
TEST(CrossEntropy, CE_5_CE_6_AWholeShareIsOneTarget) {
  Tensor logits = randn({20, 7}, 1, 3);
  for (int n = 0; n < 20; ++n) logits.data<double>()[7 * n + 6] = -std::numeric_limits<double>::infinity();
  const Tensor of_six = random_ids({20}, 6, 2), last = Tensor::full({20}, 6, DType::i64);
  for (Device device : devices())
    for (DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      const Tensor z = logits.to(dtype);
      const Result want = result_of(z, {of_six}, {}, device);
      for (const Result& got : {result_of(z, {of_six, last, Tensor::full({20}, 1, DType::f32)}, {}, device),
                                result_of(z, {last, of_six, Tensor::full({20}, 0, DType::f32)}, {}, device)}) {
        EXPECT_TRUE(std::isfinite(got.loss.item()));
        EXPECT_TRUE(identical(got.loss, want.loss));
        EXPECT_TRUE(identical(got.dz, want.dz));
      }
    }
}

TEST(CrossEntropy, CE_5_ASecondTargetOutsideMakesTheLossNaNOnCuda) {
  if (!cuda_available()) GTEST_SKIP() << "no CUDA";
  for (std::int64_t outside : {-1, 3})
    EXPECT_TRUE(std::isnan(result_of(Tensor::zeros({2, 3}, DType::f32),
                                     {Tensor::of<std::int64_t>({2}, {0, 1}),
                                      Tensor::of<std::int64_t>({2}, {0, outside}), Tensor::full({2}, 0.5, DType::f32)},
                                     {}, Device::cuda)
                               .loss.item()));
}

// Losses and gradients are linear in the target distribution.
RC_GTEST_PROP(CrossEntropy, CE_5_CE_6_MixTwoLosses, ()) {
  const auto V = *rc::gen::inRange<std::int64_t>(2, 80);
  const float lambda = float(*rc::gen::inRange(0, 101)) / 100;
  const Tensor z = randn({1, V}, *rc::gen::inRange(0u, 1000u), 3);
  const Tensor t = Tensor::of<std::int64_t>({1}, {*rc::gen::inRange<std::int64_t>(0, V)}),
               u = Tensor::of<std::int64_t>({1}, {*rc::gen::inRange<std::int64_t>(0, V)});
  const CrossEntropyOptions options{.label_smoothing = *rc::gen::element(0.0, 0.1, 0.9)};
  const Result a = result_of(z, {t}, options), b = result_of(z, {u}, options),
               got = result_of(z, {t, u, Tensor::of<float>({1}, {lambda})}, options);
  const auto mixed = [&](double x, double y) { return double(lambda) * x + (1 - double(lambda)) * y; };
  RC_ASSERT(std::abs(got.loss.item() - mixed(a.loss.item(), b.loss.item())) <= 1e-13 * (1 + got.loss.item()));
  for (std::int64_t v = 0; v < V; ++v)
    RC_ASSERT(std::abs(got.dz.data<double>()[v] - mixed(a.dz.data<double>()[v], b.dz.data<double>()[v])) <= 1e-15 * 4);
}

}  // namespace
}  // namespace foldgrad::testing
