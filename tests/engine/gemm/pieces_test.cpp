// Tests how a product is cut into pieces for the threads. calls_test.cpp tests that results have the same bits on any
// number of threads.
#include "engine/gemm/pieces.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/engine/gemm/oracle.h"

namespace foldgrad::testing {
namespace {

// f32 cuts the terms into five parts. bf16 takes less time per term, so it needs only two parts. With 144 columns or 97
// rows, C itself can be cut into two parts. Then bf16 cuts C, since cutting the terms must give at least twice as many
// parts as cutting C.
TEST(Pieces, OfTheTermsOfANarrowGradient) {
  for (const auto [m, n, bf16_parts] : {std::array{48, 120, 2}, {60, 97, 2}, {48, 144, 1}, {97, 65, 1}})
    for (unsigned flags = 0; flags < 4; ++flags) {
      Gemm g = product(/*ta=*/true, /*tb=*/flags & 1, m, n, 5 * 1024 + 7, {.pad = flags & 1 ? 3 : 0});
      g.alpha = flags == 2 ? 1 : -1.5, g.beta = flags == 3 ? 0.5 : flags;
      ASSERT_EQ(cut_of(DType::f32, resolved(g)).terms, 5);
      EXPECT_EQ(error_of<float>(g, /*bias=*/g.beta == 0, 1, /*emulated=*/false), "");
      g.f32_c = true;
      ASSERT_EQ(cut_of(DType::bf16, resolved(g)).terms, bf16_parts);
      EXPECT_EQ((error_of<bf16, float>(g, /*bias=*/false, 1, /*emulated=*/false)), "");
    }
}

}  // namespace
}  // namespace foldgrad::testing
