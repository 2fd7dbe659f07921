#include "engine/gemm/gemm.h"

#include <array>

#include "tests/engine/gemm/oracle.h"
#include "tests/harness/op_spec.h"
#include "tests/harness/properties.h"

namespace foldgrad {
namespace {

using namespace testing;

template <class T>
class GemmOf : public ::testing::Test {};
using Types = ::testing::Types<float, double, bf16>;
TYPED_TEST_SUITE(GemmOf, Types);

// The sizes are just below, at and just above the tile of our own CUDA kernel (32 rows and columns, 16 terms) and the
// reference's block of 64 columns.
TEST(Gemm, SizesAroundTiles) {
  unsigned seed = 0;
  for (int m : {1, 2, 31, 32, 33, 65})
    for (int n : {1, 7, 32, 33, 64, 65})
      for (int k : {1, 15, 16, 17, 33}) {
        ++seed;
        const Gemm g = product(seed & 1, seed >> 1 & 1, m, n, k, {.pad = seed % 3});
        ASSERT_EQ(error_of_types(g, seed % 2, seed), "");
      }
}

// With AMX, oneDNN 2.6 uses tiles that it has not configured if 63 terms remain after blocks of 64.
TEST(Gemm, OfBf16With63TermsLeft) {
  for (auto [m, n, k] : {std::array{8, 144, 63}, {34, 97, 63}, {66, 38, 63}, {184, 187, 1215}})
    for (bool transposed : {false, true})
      ASSERT_EQ(error_of<bf16>(product(transposed, !transposed, m, n, k), /*with_bias=*/true, 1, /*emulated=*/false),
                "");
}

// oneDNN 3.7 may confuse a matrix of one row or column with its transpose if there are gaps.
TEST(Gemm, OneRowOrColumnWithGaps) {
  for (auto [m, n, k] : {std::array{1, 97, 192}, {17, 1, 196}, {64, 1, 63}, {5, 7, 1}, {2, 1, 32}})
    for (unsigned flags = 0; flags < 8; ++flags) {
      const Gemm g = product(flags & 1, flags & 2, m, n, k, {.pad = flags & 4 ? 1 : 28, .batch = flags & 4 ? 3 : 1});
      ASSERT_EQ(error_of_types(g, false), "");
    }
}

// The products are so large that they run on several threads and that libraries split every dimension into blocks. Some
// rows are not aligned.
TYPED_TEST(GemmOf, LargeProducts) {
  for (bool ta : {false, true})
    for (bool tb : {false, true})
      for (auto [m, n, k, pad] : {std::array{130, 200, 1030, 1}, {128, 192, 1024, 8}}) {
        Gemm g = product(ta, tb, m, n, k, {.pad = tb ? pad : 0});
        g.alpha = tb ? 1 : -1.5, g.beta = ta ? 0 : 0.5;
        EXPECT_EQ(error_of<TypeParam>(g, ta, 3, /*emulated=*/false), "");
      }
}

// With k = 5, A is square, so a transposed A has the same strides as an untransposed one. With gaps between the
// matrices of C, they cannot be merged into one tall matrix.
TEST(Gemm, BatchesWithSharedOperands) {
  for (bool ta : {false, true})
    for (bool share_a : {false, true})
      for (bool share_b : {false, true})
        for (auto [k, pad, gap] : {std::array{5, 0, 0}, {9, 0, 0}, {9, 2, 0}, {9, 0, 3}}) {
          Gemm g =
              product(ta, !ta, 5, 34, k, {.pad = pad, .batch = 3, .gap = gap, .share_a = share_a, .share_b = share_b});
          if (gap) g.batch_stride_a = share_a ? 0 : g.batch_stride_a - gap;
          EXPECT_EQ(error_of_types(g, true), "");
          g.beta = -0.5;
          EXPECT_EQ(error_of_types(g, false), "");
        }
}

// We cache oneDNN's primitives by their parameters. A product must not get the primitive of another product of the same
// shape.
TEST(Gemm, ManyProductsOfOneShape) {
  for (bool ta : {false, true})
    for (double alpha : {1.0, 2.0})
      for (double beta : {0.0, 1.0, 0.5})
        for (bool bias : {false, true})
          for (auto [a, b, c] : {std::array{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}})
            for (auto [batch_a, batch_b, batch_c] : {std::array{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}}) {
              if (bias && beta != 0) continue;
              Gemm g = product(ta, false, 8, 8, 8, {.batch = 2});
              g.alpha = alpha, g.beta = beta;
              g.row_stride_a += a, g.row_stride_b += b, g.row_stride_c += c;
              g.batch_stride_a += 8 + batch_a, g.batch_stride_b += 8 + batch_b, g.batch_stride_c += 8 + batch_c;
              ASSERT_EQ(error_of<float>(g, bias, 1), "");
            }
}

#ifdef FOLDGRAD_HAVE_CUDA
// A grid of our own kernel has blocks for at most 65,535 matrices. k = 0 keeps the test quick under emulation.
TEST(Gemm, TiledKernelTakesLargeBatches) {
  if (!cuda_available()) GTEST_SKIP() << "no CUDA device";
  const BackEnd<float> tiled{"tiled", Device::cuda, true, run_tiled<float>};
  const Operands<float> o(product(false, false, 1, 1, 0, {.batch = 65537}), false, 1);
  EXPECT_EQ(first_error(o, expected(o), *result(tiled, o)), "");
}
#endif

// Computes Q K^T and P V, with Q, K, V and P V in attention's layout [tokens, heads, width]. The heads are the batch,
// so the matrices of the batch are side by side.
TEST(Gemm, BatchesSideBySide) {
  Gemm g = product(false, true, 6, 7, 8, {.batch = 3});
  g.row_stride_a = g.row_stride_b = 3 * 8, g.batch_stride_a = g.batch_stride_b = 8;
  EXPECT_EQ(error_of_types(g, false), "");
  g = product(false, false, 6, 8, 7, {.batch = 3});
  g.row_stride_b = g.row_stride_c = 3 * 8, g.batch_stride_b = g.batch_stride_c = 8;
  EXPECT_EQ(error_of_types(g, true), "");
}

TEST(Gemm, SizesOfZero) {
  for (double beta : {0.0, 0.5})
    for (auto [m, n, k] : {std::array{0, 3, 4}, {3, 0, 4}, {3, 4, 0}, {0, 0, 0}}) {
      Gemm g = product(false, true, m, n, k);
      g.beta = beta;
      EXPECT_EQ(error_of_types(g, beta == 0), "");
      g.batch = 0;
      EXPECT_EQ(error_of_types(g, false), "");
    }
}

// If alpha is 0, NaN in A or B must not affect C.
TEST(Gemm, AlphaZeroReadsNeitherOperand) {
  Gemm g = product(false, false, 2, 3, 4);
  g.alpha = 0, g.beta = 2;
  for (const BackEnd<float>& back_end : back_ends<float>()) {
    if (!back_end.takes_empty) continue;
    Operands<float> o(g, false, 1);
    o.a.assign(o.a.size(), kNaN);
    const auto c = result(back_end, o);
    for (int e = 0; e < 6; ++e) EXPECT_EQ((*c)[e], 2 * o.c[e]) << back_end.name;
  }
}

RC_GTEST_PROP(Gemm, EqualsTheTripleLoop, ()) {
  const auto size = rc::gen::inRange(0, 80);
  const auto flag = rc::gen::arbitrary<bool>();
  Gemm g = product(*flag, *flag, *size, *size, *size,
                   {.pad = *rc::gen::inRange(0, 3),
                    .batch = *rc::gen::inRange(0, 4),
                    .gap = *rc::gen::inRange(0, 2),
                    .share_a = *flag,
                    .share_b = *flag});
  g.alpha = *rc::gen::element(1.0, 1.0, 0.0, -0.5, 3.0);
  g.beta = *rc::gen::element(0.0, 1.0, -0.25);
  if (*flag && !*flag) g.row_stride_a = g.row_stride_b = g.row_stride_c = 0;
  const std::string error = error_of_types(g, g.beta == 0 && *flag, *rc::gen::arbitrary<unsigned>());
  if (!error.empty()) RC_FAIL(error);
}

// Checks that libraries accept plain products. Otherwise the tests above would also pass if libraries declined all
// products.
TEST(Gemm, LibrariesTakePlainProducts) {
  const Gemm g = product(false, false, 8, 8, 8);
  for (const auto& back_end : back_ends<float>())
    EXPECT_TRUE(result(back_end, Operands<float>(g, false, 1))) << back_end.name;
#if defined(FOLDGRAD_HAVE_CBLAS) && !defined(__SANITIZE_THREAD__)
  const BackEnd<double> cblas{"CBLAS", Device::cpu, false, run_library<double, cblas_gemm_cpu>};
  EXPECT_TRUE(result(cblas, Operands<double>(g, false, 1)));
#endif
#if defined(FOLDGRAD_HAVE_ONEDNN) && !defined(__SANITIZE_THREAD__)
  Gemm gradient = product(true, false, 64, 32, 128);
  gradient.f32_c = true;
  if (const BackEnd<bf16> onednn{"oneDNN", Device::cpu, false, run_library<bf16, onednn_gemm_cpu>};
      result(onednn, Operands<bf16>(g, false, 1))) {  // if the processor has bf16
    EXPECT_TRUE(result(onednn, Operands<bf16, float>(gradient, false, 1)));
  }
#endif
}

TYPED_TEST(GemmOf, RepeatsItsBits) {
  using T = TypeParam;
  const Operands<T> o(product(false, true, 70, 90, 300), false, 5);
  for (const BackEnd<T>& back_end : back_ends<T>()) {
    const auto first = result(back_end, o), second = result(back_end, o);
    if (!first) continue;
    EXPECT_EQ(std::memcmp(first->data(), second->data(), first->size() * sizeof(T)), 0) << back_end.name;
  }
}

#ifdef FOLDGRAD_EMULATE
TYPED_TEST(GemmOf, TiledKernelGivesTheSameBitsInEveryOrderOfThreads) {
  using T = TypeParam;
  const BackEnd<T> tiled{"tiled", Device::cuda, true, run_tiled<T>};
  const Operands<T> o(product(true, false, 37, 41, 35, {.batch = 2}), false, 5);
  const auto want = result(tiled, o);
  EXPECT_EQ(first_error(o, expected(o), *want), "");
  in_other_thread_orders([&] {
    const auto got = result(tiled, o);
    EXPECT_EQ(std::memcmp(got->data(), want->data(), want->size() * sizeof(T)), 0);
  });
}
#endif

std::string message(DType dtype, const Gemm& g, const void* bias = nullptr) {
  return message_of([&] { gemm(Device::cpu, dtype, g, nullptr, nullptr, nullptr, bias); });
}

TEST(Gemm, Messages) {
  const Gemm g = product(false, true, 4, 5, 6);
  const float bias = 0;
  EXPECT_EQ(message(DType::i32, g), "gemm: the element type must be f32, f64 or bf16, got i32");
  Gemm wrong = g;
  wrong.k = -1;
  EXPECT_EQ(message(DType::f32, wrong), "gemm: sizes must not be negative, got m 4, n 5, k -1, batch 1");
  wrong = g, wrong.row_stride_a = 5;
  EXPECT_EQ(message(DType::f32, wrong),
            "gemm: the row stride of A must be at least 6, the number of stored columns, got 5");
  wrong = g, wrong.row_stride_b = 5;
  EXPECT_EQ(message(DType::f32, wrong),
            "gemm: the row stride of B must be at least 6, the number of stored columns, got 5");
  wrong = g, wrong.row_stride_c = -1;
  EXPECT_EQ(message(DType::f32, wrong),
            "gemm: the row stride of C must be at least 5, the number of stored columns, got -1");
  wrong = g, wrong.batch_stride_b = -30;
  EXPECT_EQ(message(DType::f32, wrong), "gemm: batch strides must not be negative, got 24 for A, -30 for B, 20 for C");
  wrong = g, wrong.batch = 2, wrong.batch_stride_c = 19;
  EXPECT_EQ(message(DType::f32, wrong),
            "gemm: the 2 matrices C [4, 5] with row stride 5 must not overlap, got batch stride 19");
  wrong = g, wrong.beta = 0.5;
  EXPECT_EQ(message(DType::f32, wrong, &bias), "gemm: with a bias, beta must be 0, got 0.5");
  wrong = g, wrong.f32_c = true;
  EXPECT_EQ(message(DType::f32, wrong), "gemm: f32_c needs bf16 matrices and no bias, got f32");
  EXPECT_EQ(message(DType::bf16, wrong, &bias), "gemm: f32_c needs bf16 matrices and no bias, got bf16 with a bias");
#ifndef FOLDGRAD_HAVE_CUDA
  EXPECT_EQ(message_of([&] { gemm(Device::cuda, DType::f32, g, nullptr, nullptr, nullptr); }),
            "gemm: this build has no CUDA (FOLDGRAD_CUDA=OFF)");
#endif
}

TEST(Gemm, NamesItsBackEnds) {
  for (DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    RecordProperty(std::string("cpu_") + name(dtype), gemm_backend(Device::cpu, dtype));
    EXPECT_STRNE(gemm_backend(Device::cpu, dtype), "");
  }
#if defined(FOLDGRAD_HAVE_ONEDNN) && !defined(__SANITIZE_THREAD__)
  EXPECT_EQ(std::string(gemm_backend(Device::cpu, DType::bf16)).substr(0, 7), "oneDNN ");
#endif
#ifdef FOLDGRAD_EMULATE
  EXPECT_STREQ(gemm_backend(Device::cuda, DType::f32), "tiled");
#endif
}

}  // namespace
}  // namespace foldgrad
