// Tests the packing of B into panels for oneDNN, and products with packed panels.
#include "engine/gemm/panels.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

#include "tests/engine/gemm/oracle.h"

namespace foldgrad::testing {
namespace {

// Packs B by the definition of the panels, [n / 64, k / 2, 64, 2]. Zeros pad the columns to a multiple of 64, and the
// terms to a multiple of 32.
std::vector<bf16> defined_panels(const Operands<bf16>& o) {
  const Gemm g = resolved(o.g);
  const GemmStrides at(g);
  std::vector<bf16> to;
  for (std::int64_t panel = 0; panel < g.n; panel += 64)
    for (std::int64_t t = 0; t < (g.k + 31) / 32 * 32; t += 2)
      for (std::int64_t j = panel; j < panel + 64; ++j)
        for (std::int64_t p : {t, t + 1}) to.push_back(p < g.k && j < g.n ? o.b[p * at.b_p + j * at.b_j] : bf16(0.0f));
  return to;
}

void expect_defined_panels(const Gemm& g) {
  const Operands<bf16> o(g, /*with_bias=*/false, 1);
  const std::vector<bf16> want = defined_panels(o);
  ASSERT_EQ(std::int64_t(want.size()), elements_of_panels(g));
  std::vector<bf16> got(want.size(), bf16(kNaN));
  pack_panels(got.data(), o.b.data(), resolved(g));
  EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(bf16)), 0) << describe(g, false);
}

// The sizes are just below, at and just above the sizes of a panel (64 columns), a block (32 terms) and the squares
// that pack_panel() transposes. Row strides are even or odd. 700 terms are enough for packing in several pieces.
TEST(Panels, HaveTheOrderOfTheirDefinition) {
  for (int n : {1, 63, 64, 65, 130})
    for (int k : {1, 2, 15, 16, 31, 32, 33, 100, 700})
      for (int pad : {0, 1, 2})
        for (bool transposed : {false, true}) expect_defined_panels(product(false, transposed, 1, n, k, {.pad = pad}));
}

#if defined(FOLDGRAD_HAVE_ONEDNN) && !defined(__SANITIZE_THREAD__)
std::vector<bf16> integers(std::int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<bf16> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(bf16(float(int(random() % 7) - 3)));
  return values;
}

// Multiplies small integers, whose sums are exact in any order, and compares the products with those of our own loops.
// Each product is cut into three pieces, and its last block of terms is not full. With 97 columns, the last panel is
// not full either.
TEST(Panels, GiveTheProduct) {
  for (auto [m, n, k] : {std::array{797, 97, 511}, {1000, 64, 700}})
    for (unsigned flags = 0; flags < 4; ++flags) {
      Gemm g = resolved(product(/*ta=*/flags == 3, flags & 1, m, n, k));
      g.beta = flags == 2;
      const std::vector<bf16> a = integers(m * k, 1), b = integers(n * k, 2);
      if (!onednn_panels(DType::bf16, g, {nullptr, a.data(), b.data()}))
        GTEST_SKIP() << "oneDNN has no kernel for panels on this processor";
      std::vector<float> got(std::size_t(m * n), 5), want = got;
      const std::vector<float> a32(a.begin(), a.end()), b32(b.begin(), b.end());
      fma_gemm_cpu(DType::f32, g, {want.data(), a32.data(), b32.data()});
      g.f32_c = true;
      gemm(Device::cpu, DType::bf16, g, got.data(), a.data(), b.data());
      EXPECT_EQ(got, want) << describe(g, false);
    }
}
#endif

}  // namespace
}  // namespace foldgrad::testing
