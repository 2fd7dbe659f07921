#include "ops/cast/cast.h"

#include <bit>

#include "tests/harness/by_hand.h"

namespace foldgrad::testing {
namespace {

// A cast from f64 to a shorter type is a step function, so `large` excludes it from the comparison with central
// differences. CAST_2_TheGradientGoesBackAsItCame tests the gradient of such casts.
OpCase cast_case(Shape x, DType dtype) {
  return {.label = fmt::format("{} to {}", x, name(dtype)),
          .operands = {randn(x, 1)},
          .f = [dtype](const std::vector<Var>& v) { return cast(v[0], dtype); },
          .large = dtype != DType::f64};
}

const RegisterOp kCast({
    .name = "cast",
    .cases = {cast_case({3, 100}, DType::f32), cast_case({2, 3}, DType::bf16), cast_case({2, 0}, DType::f32),
              cast_case({5}, DType::f64)},
    .errors = {{"cast: types must be f32, f64 or bf16, got a cast from f32 [2] on cpu to i64",
                [](Tape& t) { cast(zeros(t, 2), DType::i64); }},
               {"cast: types must be f32, f64 or bf16, got a cast from i64 [2] on cpu to f32",
                [](Tape& t) { cast(t.constant(Tensor::zeros({2}, DType::i64)), DType::f32); }},
               {"cast: types must be f32, f64 or bf16, got a cast from nothing to f32",
                [](Tape&) { cast(Var(), DType::f32); }}},
    .f32_roundoffs = 1,
    .bf16_roundoffs = 1,
});

// Compares casts between all pairs of dtypes with the host's conversion, Tensor::to().
TEST(Cast, CAST_1_EqualsTheConversionOfTensors) {
  for (DType from : {DType::f32, DType::f64, DType::bf16})
    for (DType to : {DType::f32, DType::f64, DType::bf16}) {
      const Tensor x = Tensor::of<double>({5}, {0, 1, 3, 200, 127.3}).to(from);
      for (Device device : devices()) {
        Tape tape;
        EXPECT_TRUE(identical(cast(tape.constant(x.to(device)), to).value().to(Device::cpu), x.to(to)))
            << name(from) << " to " << name(to) << " on " << name(device);
      }
    }
}

// The number is 1 plus half a bf16 step plus an amount that f32 cannot resolve. Rounding to f32 first would give a tie,
// which bf16 rounds to even, here to 1.
TEST(Cast, CAST_1_RoundsOnce) {
  const double above_half = 1 + std::ldexp(1, -8) + std::ldexp(1, -40);
  for (Device device : devices()) {
    Tape tape;
    const Var y = cast(tape.constant(Tensor::of<double>({1}, {above_half}, device)), DType::bf16);
    EXPECT_EQ(y.value().item(), 1 + std::ldexp(1, -7));
  }
}

// The lower 16 bits of a float decide how it is rounded to bf16. The test combines all upper halves with six lower
// halves: 0 and its neighbours, 1 and 0xffff, and the midpoint, 0x8000, and its neighbours. A GPU rounds with one
// instruction, the host with integer operations.
TEST(Cast, CAST_1_EveryDeviceRoundsToTheSameBits) {
  std::vector<float> x;
  std::vector<std::uint16_t> want;
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper)
    for (const std::uint32_t lower : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const bool up = lower > 0x8000 || (lower == 0x8000 && upper % 2 == 1);
      x.push_back(std::bit_cast<float>(upper << 16 | lower));
      want.push_back(std::isnan(x.back()) ? 0x7fff : std::uint16_t(upper + up));
    }
  for (Device device : devices())
    for (const std::size_t begin : {0, 1}) {  // the slice begins at a pack, or inside one
      const Tensor all = Tensor::of<float>({std::int64_t(x.size())}, x, device);
      Tape tape;
      const Tensor y = cast(tape.constant(all.slice(begin, all.size())), DType::bf16).value().to(Device::cpu);
      ASSERT_EQ(y.size(), std::int64_t(want.size() - begin));
      for (std::int64_t i = 0; i < y.size(); ++i)
        ASSERT_EQ(y.data<bf16>()[i].bits, want[begin + i]) << std::hexfloat << x[begin + i] << " on " << name(device);
    }
}

TEST(Cast, CAST_2_TheGradientGoesBackAsItCame) {
  for (Device device : devices())
    for (bool add : {false, true}) {
      Tape tape;
      Parameter p{"x", Tensor::of<double>({2}, {1, 2}, device)};
      if (add) p.grad = Tensor::of<double>({2}, {100, 200}, device);
      p.has_grad = add;
      const Var x = tape.parameter(p);
      tape.backward(cast(x, DType::bf16), Tensor::of<double>({2}, {0.5, 3}).to(DType::bf16).to(device));
      EXPECT_EQ(tape.grad(x).values<double>(), add ? (std::vector<double>{100.5, 203}) : (std::vector<double>{0.5, 3}));
    }
}

TEST(Cast, ToTheSameTypeIsTheSameValue) {
  Tape tape;
  const Var x = tape.variable(Tensor::zeros({2}, DType::f32));
  EXPECT_EQ(cast(x, DType::f32).id(), x.id());
}

}  // namespace
}  // namespace foldgrad::testing
