// Tests the matrix products of the ladder's rungs, and the bytes and bank conflicts that docs/gemm_ladder.md states.
#ifdef FOLDGRAD_HAVE_CUDA
#include "book/ladder/ladder.h"

#include <fmt/core.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "tests/engine/gemm/oracle.h"
#include "tests/harness/op_spec.h"
#include "tests/harness/properties.h"
#ifdef FOLDGRAD_EMULATE
#include "emulation/bank_conflicts.h"
#include "emulation/cuda_emulation.h"
#include "tests/harness/traffic.h"
#endif

namespace foldgrad::testing {
namespace {

template <class T, void (*rung)(const ladder::Product<T>&)>
bool run_rung(const Gemm& g, const GemmPointers& p) {
  rung({static_cast<float*>(p.c), static_cast<const T*>(p.a), static_cast<const T*>(p.b), g.m, g.n, g.k});
  return true;
}

const BackEnd<float> kNaive{"naive", Device::cuda, true, run_rung<float, ladder::naive_cuda>},
    kTiled{"tiled", Device::cuda, true, run_rung<float, ladder::tiled_cuda>},
    kRegisters{"registers", Device::cuda, true, run_rung<float, ladder::registers_cuda>},
    kAsync{"async", Device::cuda, true, run_rung<float, ladder::async_cuda>};
const BackEnd<bf16> kMma{"mma", Device::cuda, true, run_rung<bf16, ladder::mma_cuda>};

template <class T>
Operands<T, float> operands(std::int64_t m, std::int64_t n, std::int64_t k, unsigned seed = 1) {
  return {Gemm{.m = m, .n = n, .k = k, .f32_c = std::is_same_v<T, bf16>}, false, seed};
}

// Calls body(rung, chunk) for each rung, which requires n and k to be multiples of `chunk`.
template <class Body>
void for_each_rung(const Body& body) {
  body(kNaive, 1);
  body(kTiled, 1);
  body(kRegisters, 1);
  body(kAsync, 4);
  body(kMma, 8);
}

// B has 2 on its diagonal and 1 to the right of the diagonal, so C[i, j] = 2 A[i, j] + A[i, j - 1].
TEST(Ladder, WorkedByHand) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  const std::vector<float> want = {2, 5, 8, 11, 14, 17, 20, 23, 2, -1, 1, -1, 1, -1, 1, -1};
  for_each_rung([&]<class T>(const BackEnd<T>& rung, int) {
    Operands<T, float> o = operands<T>(2, 8, 8);
    for (int j = 0; j < 8; ++j) o.a[j] = T(float(1 + j)), o.a[8 + j] = T(j % 2 ? -1.0f : 1.0f);
    for (int e = 0; e < 64; ++e) o.b[e] = T(e % 9 == 0 ? 2.0f : e % 9 == 1 && e % 8 ? 1.0f : 0.0f);
    std::vector<float> got = *result(rung, o);
    got.resize(want.size());
    EXPECT_EQ(got, want) << rung.name;
  });
}

template <class T>
std::string error_at(const BackEnd<T>& rung, std::int64_t m, std::int64_t n, std::int64_t k, unsigned seed = 1) {
  const Operands<T, float> o = operands<T>(m, n, k, seed);
  const std::string error = first_error(o, expected(o), *result(rung, o));
  return error.empty() ? "" : fmt::format("{}, m {}, n {}, k {}: {}", rung.name, m, n, k, error);
}

// The sizes are 0, one row or chunk, a whole number of tiles and steps, and one row or chunk more or less than that.
TEST(Ladder, EqualsTheTripleLoopAtTheSeams) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  for_each_rung([]<class T>(const BackEnd<T>& rung, int chunk) {
    for (const auto& [m, n, k] : std::vector<std::array<int, 3>>{{0, 8, 8},
                                                                 {3, 0, 8},
                                                                 {3, 8, 0},
                                                                 {1, chunk, chunk},
                                                                 {32, 32, 32},
                                                                 {33, 32 + chunk, 32 + chunk},
                                                                 {128, 128, 32},
                                                                 {127, 128 - chunk, 64 - chunk},
                                                                 {129, 128 + chunk, 96 + chunk}})
      EXPECT_EQ(error_at(rung, m, n, k), "");
  });
}

RC_GTEST_PROP(Ladder, EqualsTheTripleLoop, ()) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  const int chosen = *rc::gen::inRange(0, 5);
  const auto size = rc::gen::inRange<std::int64_t>(0, 140);
  const std::int64_t m = *size, n = *size, k = *size;
  const unsigned seed = *rc::gen::arbitrary<unsigned>();
  int rungs = 0;
  std::string error;
  for_each_rung([&]<class T>(const BackEnd<T>& rung, int chunk) {
    if (rungs++ == chosen) error = error_at(rung, m, n / chunk * chunk, k / chunk * chunk, seed);
  });
  if (!error.empty()) RC_FAIL(error);
}

// These rungs load in different ways but sum in the same order.
TEST(Ladder, RungsOfFloatGiveTheSameBits) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  const Operands<float> o = operands<float>(130, 36, 52);
  const std::vector<float> want = *result(kNaive, o);
  for (const BackEnd<float>& rung : {kTiled, kRegisters, kAsync}) {
    const std::vector<float> got = *result(rung, o);
    EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0) << rung.name;
  }
}

template <class T>
std::string message(void (*rung)(const ladder::Product<T>&), std::int64_t m, std::int64_t n, std::int64_t k,
                    std::uintptr_t a = 0, std::uintptr_t b = 0) {
  return message_of([&] { rung({nullptr, reinterpret_cast<const T*>(a), reinterpret_cast<const T*>(b), m, n, k}); });
}

TEST(Ladder, Messages) {
  EXPECT_EQ(message(ladder::naive_cuda, -1, 4, 4), "ladder, naive: sizes must not be negative, got m -1, n 4, k 4");
  EXPECT_EQ(message(ladder::tiled_cuda, 4, -1, 4), "ladder, tiled: sizes must not be negative, got m 4, n -1, k 4");
  EXPECT_EQ(message(ladder::registers_cuda, 4, 4, -1),
            "ladder, registers: sizes must not be negative, got m 4, n 4, k -1");
  EXPECT_EQ(message(ladder::async_cuda, 4, -4, 4), "ladder, async: sizes must not be negative, got m 4, n -4, k 4");
  EXPECT_EQ(message(ladder::mma_cuda, 1, 8, -8), "ladder, mma: sizes must not be negative, got m 1, n 8, k -8");
  EXPECT_EQ(message(ladder::async_cuda, 1, 4, 6),
            "ladder, async: k and n must be multiples of 4, since rows are copied 16 bytes at a time, got k 6, n 4");
  EXPECT_EQ(message(ladder::mma_cuda, 1, 12, 8),
            "ladder, mma: k and n must be multiples of 8, since rows are copied 16 bytes at a time, got k 8, n 12");
  EXPECT_EQ(message(ladder::async_cuda, 1, 4, 4, 16, 8),
            "ladder, async: B must begin at a multiple of 16 bytes, since it is copied that many bytes at a time");
  EXPECT_EQ(message(ladder::mma_cuda, 1, 8, 8, 8, 16),
            "ladder, mma: A must begin at a multiple of 16 bytes, since it is copied that many bytes at a time");
}

#ifdef FOLDGRAD_EMULATE
TEST(Ladder, SameBitsInAllThreadOrders) {
  for_each_rung([]<class T>(const BackEnd<T>& rung, int chunk) {
    const Operands<T, float> o = operands<T>(130, 32 + chunk, 72);
    const std::vector<float> want = *result(rung, o);
    in_other_thread_orders([&] {
      const std::vector<float> got = *result(rung, o);
      EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0) << rung.name;
    });
  });
}

// All tiles are full. C takes 4 m n bytes. The expected bytes of A and B are per multiply-add.
TEST(Ladder, BytesOfGlobalMemoryAreThoseOfThePage) {
  constexpr std::int64_t kM = 128, kN = 256, kK = 32;
  const auto expect_bytes = [&]<class T>(const BackEnd<T>& rung, double asked, double touched) {
    const Operands<T, float> o = operands<T>(kM, kN, kK);
    const emulation::CountAccesses count;
    result(rung, o);
    const emulation::GlobalAccesses seen = count.result();
    EXPECT_EQ(double(seen.bytes - 4 * kM * kN) / (kM * kN * kK), asked) << rung.name;
    EXPECT_EQ(double(32 * seen.sectors - 4 * kM * kN) / (kM * kN * kK), touched) << rung.name;
    EXPECT_TRUE(whole_sectors(seen)) << rung.name;
  };
  expect_bytes(kNaive, 8, 5);
  expect_bytes(kTiled, 1.0 / 4, 1.0 / 4);
  expect_bytes(kRegisters, 1.0 / 16, 1.0 / 16);
  expect_bytes(kAsync, 1.0 / 16, 1.0 / 16);
  expect_bytes(kMma, 1.0 / 32, 1.0 / 32);
}

TEST(Ladder, NoBankIsMetTwice) {
  for (const BackEnd<float>& rung : {kTiled, kRegisters, kAsync}) {
    const Operands<float> o = operands<float>(128, 128, 16);
    const emulation::WorstBankConflict conflict;
    result(rung, o);
    EXPECT_EQ(conflict.ways(), 1) << rung.name << ": " << conflict.where();
  }
}

// Each mma instruction computes 16 x 8 x 16 multiply-adds.
TEST(Ladder, TensorCoresMultiplyAllAndMeetNoBankTwice) {
  const Operands<bf16, float> o = operands<bf16>(128, 256, 64);
  const emulation::Counts before = emulation::counts();
  result(kMma, o);
  EXPECT_EQ(emulation::counts().products - before.products, 128 * 256 * 64 / (16 * 8 * 16));
  EXPECT_EQ(emulation::counts().bank_conflicts - before.bank_conflicts, 0);
}
#endif

}  // namespace
}  // namespace foldgrad::testing
#endif
