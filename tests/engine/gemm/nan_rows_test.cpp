// Tests that NaN in a row of A affects only the same row of the product. A library that loads several numbers at once
// may read beyond the end of a row, and multiply the extra numbers by zeros. If the next row is NaN, this gives NaN.
#include <array>
#include <cmath>

#include "tests/engine/gemm/oracle.h"
#include "tests/harness/properties.h"

namespace foldgrad {
namespace {

using namespace testing;

// Sets rows 1, 3, 5, ... of op(A) to NaN. These rows of C must become NaN; the other rows must not change. Returns a
// description of the first wrong element, or "" if there is none.
template <class T, class C = T>
std::string error_by_nan_rows(const Gemm& g) {
  const Operands<T, C> finite(g, /*with_bias=*/false, 1);
  Operands<T, C> with_nan = finite;
  const GemmStrides stride(g);
  for (std::int64_t s = 0; s < g.batch; ++s)
    for (std::int64_t i = 1; i < g.m; i += 2)
      for (std::int64_t p = 0; p < g.k; ++p)
        with_nan.a[s * g.batch_stride_a + i * stride.a_i + p * stride.a_p] = T(kNaN);
  for (const BackEnd<T>& back_end : back_ends<T>()) {
    if (back_end.device == Device::cuda && cuda_is_emulated()) continue;  // our own kernel is slow under emulation
    const auto want = result(back_end, finite), got = result(back_end, with_nan);
    if (!want) continue;
    for (std::int64_t s = 0; s < g.batch; ++s)
      for (std::int64_t i = 0; i < g.m; ++i)
        for (std::int64_t j = 0; j < g.n; ++j) {
          const auto at = s * g.batch_stride_c + i * g.row_stride_c + j;
          const double c = (*got)[at];
          if (i % 2 ? !std::isnan(c) : c != (*want)[at])
            return fmt::format("{} {} {}: C[{}, {}, {}] is {}, without NaN {}", back_end.name, name(dtype_of<T>),
                               describe(g, false), s, i, j, c, double((*want)[at]));
        }
  }
  return "";
}

// oneDNN 3 may use AMX for bf16 products in a way that spreads NaN unless k is a multiple of 32
// (engine/gemm/onednn_versions.h).
TEST(Gemm, NaNStaysInItsRow) {
  for (auto [m, n] : {std::array{2, 16}, {17, 64}, {33, 97}})
    for (int k : {1, 31, 32, 33, 36, 63, 64, 65, 100, 130, 160})
      for (const Layout& layout : {Layout{}, {.pad = 1}, {.pad = 28}, {.batch = 3}, {.pad = 28, .batch = 3}})
        for (bool transposed : {false, true}) {
          Gemm g = product(transposed, !transposed, m, n, k, layout);
          ASSERT_EQ(error_by_nan_rows<float>(g), "");
          ASSERT_EQ(error_by_nan_rows<bf16>(g), "");
          g.f32_c = true;
          ASSERT_EQ((error_by_nan_rows<bf16, float>(g)), "");
        }
}

}  // namespace
}  // namespace foldgrad
