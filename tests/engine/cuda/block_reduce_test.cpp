// Tests reductions inside a block, and sums over columns on both devices.
#include <limits>
#include <numeric>

#include "engine/cpu/column_sums.h"
#include "engine/cpu/threads.h"
#include "tests/engine/cuda/block_reduce_test_kernels.h"
#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

// Returns whole numbers, whose sums are exact in any order.
Tensor whole_numbers(Shape shape) {
  Tensor t = randn(std::move(shape), 1, 100);
  for (std::int64_t i = 0; i < t.size(); ++i) t.data<double>()[i] = std::round(t.data<double>()[i]);
  return t;
}

Tensor moments_on(Device device, const Tensor& x) {
  const Tensor on_device = x.to(device), out = Tensor::full({2, x.shape()[1]}, NAN, DType::f64, device);
  const Moments p{on_device.data<double>(), out.data<double>(), x.shape()[0], x.shape()[1]};
  const auto moments_cpu = [](const Moments& m) { column_sums_cpu(m); };
  FOLDGRAD_RUN(device, moments, p);
  return out.to(Device::cpu);
}

TEST(ColumnSums, AreTheSumsOfTheColumns) {
  for (auto [rows, columns] :
       {std::pair{0, 3}, {1, 1}, {7, 31}, {8, 32}, {9, 33}, {16, 5}, {17, 5}, {1000, 65}, {140000, 1}}) {
    const Tensor x = whole_numbers({rows, columns});
    const Tensor want = Tensor::zeros({2, columns}, DType::f64);
    for (std::int64_t i = 0; i < x.size(); ++i) {
      want.data<double>()[i % columns] += x.data<double>()[i];
      want.data<double>()[columns + i % columns] += x.data<double>()[i] * x.data<double>()[i];
    }
    for (Device device : devices()) EXPECT_TRUE(identical(moments_on(device, x), want)) << rows << " x " << columns;
  }
}

TEST(ColumnSums, HaveTheSameBitsWithAnyNumberOfThreads) {
  const int before = threads();
  const Tensor x = randn({3000, 40}, 2);
  const Tensor want = moments_on(Device::cpu, x);
  for (int n : {1, 2, 3, 7}) {
    set_threads(n);
    EXPECT_TRUE(identical(moments_on(Device::cpu, x), want)) << n << " threads";
  }
  set_threads(before);
}

#ifdef FOLDGRAD_HAVE_CUDA
TEST(BlockReduce, GivesEveryThreadTheResult) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  for (int threads : {32, 64, 256, 1024})
    for (std::int64_t n : {1, 31, 33, 1025}) {
      const Tensor x = whole_numbers({2, n}), on_device = x.to(Device::cuda);
      const Tensor sum = Tensor::empty({2, threads}, DType::f64, Device::cuda),
                   max = Tensor::empty({2, threads}, DType::f64, Device::cuda);
      reduce_rows_cuda({on_device.data<double>(), sum.data<double>(), max.data<double>(), n}, 2, unsigned(threads));
      const auto sums = sum.values<double>(), maxima = max.values<double>();
      for (int row = 0; row < 2; ++row) {
        const double* begin = x.data<double>() + row * n;
        for (int t = 0; t < threads; ++t) {
          ASSERT_EQ(sums[row * threads + t], std::accumulate(begin, begin + n, 0.)) << threads << " threads, n " << n;
          ASSERT_EQ(maxima[row * threads + t], *std::max_element(begin, begin + n)) << threads << " threads, n " << n;
        }
      }
    }
}

TEST(BlockReduce, TheMaximumShowsANaN) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  for (std::int64_t where : {0, 40, 63}) {
    const Tensor x = Tensor::zeros({1, 64}, DType::f64);
    x.data<double>()[where] = std::numeric_limits<double>::quiet_NaN();
    const Tensor on_device = x.to(Device::cuda);
    const Tensor sum = Tensor::empty({1, 64}, DType::f64, Device::cuda),
                 max = Tensor::empty({1, 64}, DType::f64, Device::cuda);
    reduce_rows_cuda({on_device.data<double>(), sum.data<double>(), max.data<double>(), 64}, 1, 64);
    EXPECT_TRUE(std::isnan(max.values<double>()[5])) << where;
  }
}
#endif

}  // namespace
}  // namespace foldgrad::testing
