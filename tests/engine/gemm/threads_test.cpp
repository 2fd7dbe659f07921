#include <gtest/gtest.h>
#include <omp.h>

#include <thread>

#include "tests/engine/gemm/oracle.h"

namespace foldgrad {
namespace {

using namespace testing;

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

}  // namespace
}  // namespace foldgrad
