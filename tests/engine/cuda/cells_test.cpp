// Tests the loop with which kernels visit the cells of [batch, rows, columns].
#include <algorithm>
#include <tuple>
#include <vector>

#include "tests/engine/cuda/cells_test_kernels.h"
#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

// Checks that the kernel visits each cell once, and none of the 600 cells after them.
void expect_once(std::int64_t batch, std::int64_t rows, std::int64_t columns) {
  const Tensor on_device = Tensor::zeros({batch * rows * columns + 600}, DType::i32, Device::cuda);
  count_cells_cuda(on_device.data<std::int32_t>(), batch, rows, columns);
  const std::vector<std::int32_t> got = on_device.values<std::int32_t>();
  const auto after = got.begin() + batch * rows * columns;
  const auto wrong = std::find_if(got.begin(), after, [](std::int32_t n) { return n != 1; });
  EXPECT_EQ(wrong - got.begin(), after - got.begin()) << batch << " x " << rows << " x " << columns;
  EXPECT_EQ(std::count(after, got.end(), 0), got.end() - after) << batch << " x " << rows << " x " << columns;
}

// Some sizes are just below and above those of a block of 256 threads. The block's width and height depend on the
// numbers of columns and rows.
TEST(Cells, EveryCellIsVisitedOnce) {
  if (!cuda_available()) GTEST_SKIP() << "no CUDA: " << cuda_description();
  for (std::int64_t batch : {1, 3})
    for (std::int64_t rows : {1, 2, 7, 255, 257})
      for (std::int64_t columns : {1, 2, 31, 33, 255, 256, 257, 513}) expect_once(batch, rows, columns);
  for (auto [batch, rows, columns] : {std::tuple{0, 2, 2}, {2, 0, 2}, {2, 2, 0}}) expect_once(batch, rows, columns);
}

// A grid has at most 65,535 blocks in y and in z, so a block must visit several rows or matrices.
TEST(Cells, MoreRowsAndMatricesThanAGridHasBlocks) {
  if (!cuda_available()) GTEST_SKIP() << "no CUDA: " << cuda_description();
  expect_once(65535 + 2, 1, 1);
  expect_once(1, 65535 + 2, 256);
}

}  // namespace
}  // namespace foldgrad::testing
