#include "ops/layer_norm/row_norm.h"

#include "ops/affine/affine.h"
#include "ops/center_norm/center_norm.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/rms_norm/rms_norm.h"
#include "tests/harness/compare.h"

namespace foldgrad::testing {
namespace {

constexpr std::int64_t kRows = 5, kColumns = 67;  // not whole vectors
constexpr double kEps = 1e-5;

struct Operands {
  Tensor x = randn({kRows, kColumns}, 1, 2, 3).to(DType::f32), A = randn({kColumns}, 2).to(DType::f32),
         B = randn({kColumns}, 3).to(DType::f32);

  RowNorm<float> norm(bool center, bool scale) const {
    return {.A = A.data<float>(),
            .B = B.data<float>(),
            .columns = kColumns,
            .center = center,
            .scale = scale,
            .eps = float(kEps)};
  }
};

template <class Y = float>
std::vector<Y> run(const Operands& o, bool center, bool scale) {
  std::vector<Y> y(kRows * kColumns);
  row_norm(o.norm(center, scale), kRows, o.x.data<float>(), y.data());
  return y;
}

// Runs the operation with a tape. It evaluates the same formulas, hence the same bits.
template <class F>
std::vector<float> with_tape(const Operands& o, const F& f) {
  Tape tape(/*recording=*/false);
  return f(tape.constant(o.x), tape.constant(o.A), tape.constant(o.B)).value().template values<float>();
}

TEST(RowNorm, CenteredAndScaledIsLayerNorm) {
  const Operands o;
  EXPECT_EQ(run(o, true, true),
            with_tape(o, [](const Var& x, const Var& A, const Var& B) { return layer_norm(x, A, B, kEps); }));
}

TEST(RowNorm, ScaledIsRmsNorm) {
  Operands o;
  o.B.zero();
  EXPECT_EQ(run(o, false, true),
            with_tape(o, [](const Var& x, const Var& A, const Var&) { return rms_norm(x, A, kEps); }));
}

// center_norm multiplies by C / (C - 1), which inference has in A.
TEST(RowNorm, CenteredIsCenterNorm) {
  const Operands o;
  const std::vector<float> want =
      with_tape(o, [](const Var& x, const Var& A, const Var& B) { return center_norm(x, A, B); });
  Operands folded;
  for (std::int64_t c = 0; c < kColumns; ++c)
    folded.A.data<float>()[c] = float(double(o.A.data<float>()[c]) * kColumns / (kColumns - 1));
  const std::vector<float> y = run(folded, true, false);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], want[i], 1e-5) << i;  // |y| < 32: some roundings of f32
}

TEST(RowNorm, NeitherIsAffine) {
  const Operands o;
  EXPECT_EQ(run(o, false, false),
            with_tape(o, [](const Var& x, const Var& A, const Var& B) { return affine(x, A, B); }));
}

TEST(RowNorm, Bf16IsTheRoundedResult) {
  const Operands o;
  const std::vector<float> exact = run(o, true, true);
  const std::vector<bf16> rounded = run<bf16>(o, true, true);
  for (std::size_t i = 0; i < exact.size(); ++i) EXPECT_EQ(float(rounded[i]), float(bf16(exact[i]))) << i;
}

TEST(RowNorm, WorksInPlace) {
  const Operands o;
  const std::vector<float> want = run(o, true, true);
  row_norm(o.norm(true, true), kRows, o.x.data<float>(), o.x.data<float>());
  EXPECT_EQ(o.x.values<float>(), want);
}

}  // namespace
}  // namespace foldgrad::testing
