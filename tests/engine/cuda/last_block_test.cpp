// The last block of a kernel sees what all have written, and leaves the counters as they were.
#include <gtest/gtest.h>

#include "engine/cuda/arrivals.h"
#include "tests/engine/cuda/last_block_test_kernels.h"
#include "tests/harness/op_spec.h"

#ifdef FOLDGRAD_HAVE_CUDA
namespace foldgrad::testing {
namespace {

TEST(CudaLastBlock, AddsUpWhatAllBlocksHaveWritten) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  for (const auto& [blocks, columns] : {std::pair{1, 1}, {1, 100}, {2, 32}, {7, 33}, {64, 200}}) {
    Tensor x = Tensor::empty({blocks, columns}, DType::f64);
    for (std::int64_t i = 0; i < x.size(); ++i) x.data<double>()[i] = double(i + 1);  // sums are exact in any order
    const Tensor on_device = x.to(Device::cuda);
    for (int time = 0; time < 3; ++time) {  // all with the same counters
      const auto empty = [](Shape shape) { return Tensor::empty(shape, DType::f64, Device::cuda); };
      const Tensor partials = empty({blocks, columns}), sums = empty({columns}), total = empty({1});
      const std::int64_t strips = (columns + 31) / 32;
      last_block_sums_cuda({on_device.data<double>(), partials.data<double>(), sums.data<double>(),
                            total.data<double>(), arrivals(1 + strips), blocks, columns});
      const auto found = sums.values<double>();
      for (int c = 0; c < columns; ++c)
        ASSERT_EQ(found[c], blocks * (c + 1.) + columns * (blocks * (blocks - 1) / 2.)) << blocks << " x " << columns;
      const double n = double(x.size());
      EXPECT_EQ(total.item(), n * (n + 1) / 2) << blocks << " x " << columns;
    }
  }
}

TEST(CudaLastBlock, CountersAreBounded) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  EXPECT_NO_THROW(arrivals(65536));
  EXPECT_THROW(arrivals(65537), std::invalid_argument);
}

}  // namespace
}  // namespace foldgrad::testing
#endif
