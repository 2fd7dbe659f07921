// Tests the matrix products of the CPU ladder's rungs, and that all rungs sum in the same order.
#include "book/ladder/cpu/cpu_ladder.h"

#include <array>
#include <cstring>

#include "engine/cpu/vector_width.h"
#include "tests/engine/gemm/oracle.h"
#include "tests/harness/op_spec.h"
#include "tests/harness/properties.h"

namespace foldgrad::testing {
namespace {

template <void (*rung)(const ladder::Product<float>&)>
bool run_cpu_rung(const Gemm& g, const GemmPointers& p) {
  rung({static_cast<float*>(p.c), static_cast<const float*>(p.a), static_cast<const float*>(p.b), g.m, g.n, g.k});
  return true;
}

const BackEnd<float> kCpuRungs[] = {{"naive", Device::cpu, true, run_cpu_rung<ladder::naive_cpu>},
                                    {"vectors", Device::cpu, true, run_cpu_rung<ladder::vectors_cpu>},
                                    {"registers", Device::cpu, true, run_cpu_rung<ladder::registers_cpu>},
                                    {"packed", Device::cpu, true, run_cpu_rung<ladder::packed_cpu>}};

#ifdef __FMA__
constexpr bool kFused = true;  // without FMA instructions, only the first rung fuses (in software)
#else
constexpr bool kFused = false;
#endif

// Returns a description of the first wrong rung, or "" if there is none. With FMA and up to 512 terms, all rungs must
// give the same bits.
std::string cpu_ladder_error(std::int64_t m, std::int64_t n, std::int64_t k, unsigned seed = 1) {
  const Operands<float> o({.m = m, .n = n, .k = k}, false, seed);
  const Expected e = expected(o);
  const std::vector<float> naive = *result(kCpuRungs[0], o);
  for (const BackEnd<float>& rung : kCpuRungs) {
    const std::vector<float> got = *result(rung, o);
    std::string error = first_error(o, e, got);
    if (error.empty() && kFused && k <= 512 && std::memcmp(got.data(), naive.data(), naive.size() * sizeof(float)) != 0)
      error = "the bits differ from those of rung 1";
    if (!error.empty()) return fmt::format("{}, m {}, n {}, k {}: {}", rung.name, m, n, k, error);
  }
  return "";
}

// Some sizes are 0. Others are just below, at and just above the sizes of a tile (6 or 14 rows, at most 32 columns) and
// of a block of 512 terms.
TEST(CpuLadder, EqualsTheTripleLoopAtTheSeams) {
  constexpr std::array<int, 3> kSizes[] = {{0, 16, 8},    {3, 0, 8},     {3, 16, 0},   {1, 16, 1},
                                           {6, 32, 5},    {7, 48, 9},    {14, 32, 32}, {15, 80, 33},
                                           {13, 16, 511}, {29, 32, 512}, {5, 48, 513}, {2, 16, 1025}};
  for (auto [m, n, k] : kSizes) EXPECT_EQ(cpu_ladder_error(m, n, k), "");
}

RC_GTEST_PROP(CpuLadder, EqualsTheTripleLoop, ()) {
  const auto size = rc::gen::inRange<std::int64_t>(0, 80);
  const std::int64_t m = *size, n = 16 * *rc::gen::inRange<std::int64_t>(0, 6), k = *size;
  const std::string error = cpu_ladder_error(m, n, k, *rc::gen::arbitrary<unsigned>());
  if (!error.empty()) RC_FAIL(error);
}

TEST(CpuLadder, Messages) {
  const auto message = [](void (*rung)(const ladder::Product<float>&), std::int64_t m, std::int64_t n) {
    return message_of([&] { rung({nullptr, nullptr, nullptr, m, n, 4}); });
  };
  EXPECT_EQ(message(ladder::naive_cpu, -1, 4), "ladder, naive: sizes must not be negative, got m -1, n 4, k 4");
  const std::string end = fmt::format(": n must be a multiple of {}, got 5", kVectorBytes / 4);
  EXPECT_EQ(message(ladder::vectors_cpu, 1, 5), "ladder, vectors" + end);
  EXPECT_EQ(message(ladder::registers_cpu, 1, 5), "ladder, registers" + end);
  EXPECT_EQ(message(ladder::packed_cpu, 1, 5), "ladder, packed" + end);
}

}  // namespace
}  // namespace foldgrad::testing
