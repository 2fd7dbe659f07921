// Products called from and by several threads, and with a bias.
#include <gtest/gtest.h>
#include <omp.h>

#include <thread>

#include "engine/gemm/backends.h"
#include "tests/engine/gemm/oracle.h"
#include "tests/harness/compare.h"
#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

// oneDNN's primitives are made for a number of threads and kept per thread.
TEST(Gemm, AnyNumberOfThreads) {
  const int threads = omp_get_max_threads();
  const Gemm g = product(false, true, 70, 90, 300);
  for (int n : {1, 3, 2}) {
    omp_set_num_threads(n);
    EXPECT_EQ(error_of<float>(g, true, n, /*emulated=*/false), "");
  }
  omp_set_num_threads(threads);
}

TEST(Gemm, SeveralCallersAtOnce) {
  const Operands<float> o(product(false, true, 33, 65, 129), true, 7);
  std::string errors[4];
  std::vector<std::thread> callers;
  for (std::string& error : errors)
    callers.emplace_back([&] {
      const BackEnd<float> cpu{"gemm on cpu", Device::cpu, true, run_gemm<float, Device::cpu>};
      for (int repeat = 0; repeat < 5; ++repeat) error += first_error(o, expected(o), *result(cpu, o));
    });
  for (std::thread& caller : callers) caller.join();
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(Gemm, InsideAParallelRegion) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer cannot see libgomp's barriers";
#endif
  const Operands<float> o(product(false, true, 33, 65, 129), true, 7);
  std::string errors[2];
#pragma omp parallel for num_threads(2)
  for (int i = 0; i < 2; ++i) {
    const BackEnd<float> cpu{"gemm on cpu", Device::cpu, true, run_gemm<float, Device::cpu>};
    errors[i] = first_error(o, expected(o), *result(cpu, o));
  }
  EXPECT_EQ(errors[0] + errors[1], "");
}

struct Layout {
  std::int64_t batch, m, n, row_stride, batch_stride;
  std::int64_t begin;  // of C within its memory
};

// Memory between the rows of C keeps its value.
template <class T>
void expect_bias(const Layout& l) {
  Gemm g;
  g.batch = l.batch, g.m = l.m, g.n = l.n;
  g.row_stride_c = l.row_stride, g.batch_stride_c = l.batch_stride;
  const std::int64_t size = l.begin + (l.batch - 1) * l.batch_stride + l.m * l.row_stride + 40;
  const Tensor bias = randn({l.n}, 1).to(dtype_of<T>), want = Tensor::full({size}, 77, dtype_of<T>);
  const Tensor got = want.to(Device::cuda), bias_there = bias.to(Device::cuda);
  for (std::int64_t s = 0; s < l.batch; ++s)
    for (std::int64_t i = 0; i < l.m; ++i)
      for (std::int64_t j = 0; j < l.n; ++j)
        want.data<T>()[l.begin + s * l.batch_stride + i * l.row_stride + j] = bias.data<T>()[j];
  store_bias_cuda(g, got.data<T>() + l.begin, bias_there.data<T>());
  EXPECT_TRUE(identical(got, want)) << name(dtype_of<T>) << ", n " << l.n << ", row stride " << l.row_stride
                                    << ", batch stride " << l.batch_stride << ", from " << l.begin;
}

// Rows in packs of 16 bytes; each thing that forbids packs; matrices side by side within common rows.
TEST(GemmBias, IsInEveryRowAndNowhereElse) {
  if (!cuda_available()) GTEST_SKIP() << "no CUDA: " << cuda_description();
  for (const Layout& l : {Layout{1, 5, 512, 512, 0, 0},
                          {3, 4, 64, 64, 256, 0},
                          {3, 4, 64, 72, 320, 8},
                          {1, 5, 33, 40, 0, 0},
                          {1, 5, 64, 67, 0, 0},
                          {3, 2, 64, 64, 129, 0},
                          {1, 5, 64, 64, 0, 1},
                          {3, 7, 8, 24, 8, 0},
                          {3, 7, 5, 15, 5, 0},
                          {1, 1, 1, 1, 0, 0},
                          {2, 300, 3, 3, 900, 0}}) {
    expect_bias<float>(l);
    expect_bias<double>(l);
    expect_bias<bf16>(l);
  }
}

}  // namespace
}  // namespace foldgrad::testing
