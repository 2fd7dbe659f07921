// Tests gemm() with several calling threads, several worker threads, biases, and sums of rows.
#include <array>
#include <cstring>
#include <string_view>
#include <thread>

#include "engine/cpu/threads.h"
#include "tests/engine/gemm/oracle.h"
#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

template <class T>
const BackEnd<T> kCpu{"gemm on cpu", Device::cpu, true, run_gemm<T, Device::cpu>};

template <class T>
std::vector<T> on_threads(int n, const Gemm& g) {
  set_threads(n);
  return *result(kCpu<T>, Operands<T>(g, true, 7));
}

template <class T>
void expect_same_bits(const Gemm& g) {
  EXPECT_EQ(error_of<T>(g, true, 1, /*emulated=*/false), "");
  const auto want = on_threads<T>(1, g);
  for (const int n : {2, 3, 7}) {
    const auto got = on_threads<T>(n, g);
    EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof want[0]), 0)
        << n << " threads, " << name(dtype_of<T>) << ", " << g.m << " x " << g.n << " x " << g.k;
  }
}

// The six products are cut into pieces in different ways: into rows, rows of a weight gradient, columns, matrices of a
// batch, both matrices and rows, and terms.
TEST(Gemm, SameBitsForAnyNumberOfThreads) {
  const int before = threads();
  for (const Gemm& g : {product(false, true, 780, 90, 550), product(true, false, 390, 70, 1500),
                        product(false, false, 40, 900, 700), product(false, true, 70, 90, 400, {.batch = 9}),
                        product(true, false, 120, 90, 700, {.batch = 3}), product(true, false, 48, 90, 5000)}) {
    expect_same_bits<float>(g);
    expect_same_bits<double>(g);
    expect_same_bits<bf16>(g);
  }
  set_threads(before);
}

// Returns the exact bits that our own loops must produce. Sums each block of up to 512 terms with fused multiply-adds
// of a and alpha b, then adds the block sums to C one after the other.
std::vector<float> in_blocks(const Operands<float>& o) {
  const Gemm g = resolved(o.g);
  const GemmStrides stride(g);
  std::vector<float> c = o.c;
  for (std::int64_t i = 0; i < g.m; ++i)
    for (std::int64_t j = 0; j < g.n; ++j) {
      float& c_ij = c[i * g.row_stride_c + j];
      const bool begun = !o.bias.empty() || g.beta != 0;
      if (begun) c_ij = o.bias.empty() ? float(g.beta) * c_ij : o.bias[j];
      for (std::int64_t t = 0; t < g.k; t += 512) {
        float sum = 0;
        for (std::int64_t p = t; p < std::min<std::int64_t>(t + 512, g.k); ++p)
          sum = std::fma(o.a[i * stride.a_i + p * stride.a_p], float(g.alpha) * o.b[p * stride.b_p + j * stride.b_j],
                         sum);
        c_ij = begun || t > 0 ? c_ij + sum : sum;
      }
    }
  return c;
}

// Most sizes are just below, at or above tiles of 6 and 14 rows, panels of 16 and 32 columns, and blocks of 512 terms.
// More than 1,024 rows or columns are packed in parts. The result must not depend on whether A is read in place or
// packed, nor on the number of threads.
TEST(Gemm, OwnLoopsHaveTheSameBitsWithAnyNumberOfThreads) {
#if !defined(__FMA__) || !defined(__OPTIMIZE__)
  GTEST_SKIP() << "this build has no fused multiply-add";
#endif
  const BackEnd<float> own{"own", Device::cpu, false, run_library<float, fma_gemm_cpu>};
  const int before = threads();
  constexpr std::array<int, 3> kSizes[] = {{1, 1, 1},   {14, 32, 512}, {15, 33, 513},  {29, 63, 1025}, {13, 31, 511},
                                           {6, 16, 17}, {85, 95, 700}, {1100, 40, 20}, {30, 1060, 20}};
  for (auto [m, n, k] : kSizes)
    for (unsigned flags = 0; flags < 8; ++flags) {
      Gemm g = product(flags & 1, flags & 2, m, n, k, {.pad = flags & 4 ? 3 : 0});
      g.alpha = flags & 4 ? -1.5 : 1, g.beta = flags == 5 ? 0.5 : flags == 6;
      const Operands<float> o(g, /*with_bias=*/flags == 3, flags);
      const std::vector<float> want = in_blocks(o);
      for (int n_threads : {1, 2, 3, 7}) {
        set_threads(n_threads);
        ASSERT_EQ(std::memcmp(result(own, o)->data(), want.data(), want.size() * sizeof(float)), 0)
            << describe(g, !o.bias.empty()) << ", " << n_threads << " threads";
      }
    }
  set_threads(before);
}

TEST(Gemm, SeveralCallersAtOnce) {
  const Operands<float> o(product(false, true, 33, 65, 129), true, 7);
  std::string errors[4];
  std::vector<std::thread> callers;
  for (std::string& error : errors)
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 5; ++repeat) error += first_error(o, expected(o), *result(kCpu<float>, o));
    });
  for (std::thread& caller : callers) caller.join();
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(Gemm, InsideAPiece) {
  const Operands<float> o(product(false, true, 33, 65, 129), true, 7);
  std::string errors[2];
  parallel(2, [&](std::int64_t piece) { errors[piece] = first_error(o, expected(o), *result(kCpu<float>, o)); });
  EXPECT_EQ(errors[0] + errors[1], "");
}

// With k = 0, every row of C is just the bias. The cases cover rows written in 16-byte packs, each condition that rules
// packs out, matrices side by side in the same rows, and a C that is not aligned to 16 bytes.
TEST(Gemm, TheBiasIsInEveryRowAndNowhereElse) {
  constexpr std::array<int, 5> kCases[] = {
      {1, 5, 512, 512, 0}, {3, 4, 64, 64, 256}, {3, 4, 64, 72, 320}, {1, 5, 33, 40, 0}, {1, 5, 64, 67, 0},
      {3, 2, 64, 64, 129}, {3, 7, 8, 24, 8},    {3, 7, 5, 15, 5},    {1, 1, 1, 1, 0},   {2, 300, 3, 3, 900}};
  for (auto [batch, m, n, row_stride, batch_stride] : kCases) {
    Gemm g;
    g.m = m, g.n = n, g.batch = batch;
    g.row_stride_c = row_stride, g.batch_stride_c = batch_stride;
    EXPECT_EQ(error_of_types(g, true), "");
  }
  if (!cuda_available()) return;
  const Tensor c = Tensor::zeros({1 + 5 * 64}, DType::f32, Device::cuda),
               bias = Tensor::full({64}, 7, DType::f32, Device::cuda);
  gemm(Device::cuda, DType::f32, product(false, false, 5, 64, 0), c.data<float>() + 1, nullptr, nullptr, bias.raw());
  std::vector<float> want(1 + 5 * 64, 7);
  want[0] = 0;
  EXPECT_EQ(c.values<float>(), want);
}

// If parameters share storage, a layer's bias may begin at any element. cuBLASLt may read it in packs of 16 bytes, and
// does not check its address.
TEST(Gemm, ABiasMayBeginBesideAMultipleOf16Bytes) {
  if (!cuda_available()) GTEST_SKIP() << "no device";
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const Tensor a = Tensor::full({32, 64}, 1, dtype, Device::cuda),
                 b = Tensor::full({64, 128}, 1, dtype, Device::cuda), c = Tensor::zeros({32, 128}, dtype, Device::cuda),
                 biases = Tensor::full({130}, 7, dtype, Device::cuda);
    for (const std::int64_t first : {0, 1, 2})  // equal products share one plan
      gemm(Device::cuda, dtype, product(false, false, 32, 128, 64), c.raw(), a.raw(), b.raw(),
           biases.slice(first, first + 128).raw());
    EXPECT_EQ(c.to(DType::f32).values<float>(), std::vector<float>(32 * 128, 71.0f)) << name(dtype);
  }
}

// gemm_with_row_sums() computes the product and the sums in one step only with cuBLASLt, and only if the sums begin at
// a multiple of 16 bytes. Otherwise it changes neither result, and the caller takes two steps.
TEST(Gemm, SumsRowsBesideTheProductOrDoesNothing) {
  const std::int64_t m = 24, n = 16, k = 200;
  Tensor a = Tensor::empty({k, m}, DType::f32), b = Tensor::empty({k, n}, DType::f32);
  for (std::int64_t i = 0; i < k * m; ++i) a.data<float>()[i] = float(i % 7 - 3);  // small integers: sums are exact
  for (std::int64_t i = 0; i < k * n; ++i) b.data<float>()[i] = float(i % 5 - 2);
  std::vector<float> product(std::size_t(m * n)), sums(m);
  for (std::int64_t p = 0; p < k; ++p)
    for (std::int64_t i = 0; i < m; ++i) {
      sums[i] += a.data<float>()[p * m + i];
      for (std::int64_t j = 0; j < n; ++j)
        product[i * n + j] += a.data<float>()[p * m + i] * b.data<float>()[p * n + j];
    }
  for (const auto& [device, first] : {std::pair(Device::cpu, 0), {Device::cuda, 0}, {Device::cuda, 1}})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      if (device == Device::cuda && !cuda_available()) continue;
      const Tensor c = Tensor::full({m, n}, 9, DType::f32, device),
                   s = Tensor::full({m + 1}, 9, DType::f32, device).slice(first, first + m);
      const Gemm g{.transpose_a = true, .m = m, .n = n, .k = k, .f32_c = dtype == DType::bf16};
      const bool done = gemm_with_row_sums(device, dtype, g, c.raw(), a.to(dtype).to(device).raw(),
                                           b.to(dtype).to(device).raw(), s.raw());
      EXPECT_EQ(done, std::string_view(gemm_backend(device, dtype)) == "cuBLAS" && first == 0);
      EXPECT_EQ(c.values<float>(), done ? product : std::vector<float>(std::size_t(m * n), 9));
      EXPECT_EQ(s.values<float>(), done ? sums : std::vector<float>(m, 9));
    }
}

}  // namespace
}  // namespace foldgrad::testing
