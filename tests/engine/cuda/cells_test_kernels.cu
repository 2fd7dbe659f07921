#include "engine/cuda/cells.h"
#include "tests/engine/cuda/cells_test_kernels.h"

namespace foldgrad::testing {
namespace {

struct CountCell {
  int* visits;
  std::int64_t rows, columns;

  __device__ void operator()(std::int64_t s, std::int64_t r, std::int64_t c) const {
    ++visits[(s * rows + r) * columns + c];
  }
};

}  // namespace

void count_cells_cuda(int* visits, std::int64_t batch, std::int64_t rows, std::int64_t columns) {
  cells_cuda("count cells", batch, rows, columns, CountCell{visits, rows, columns});
}

}  // namespace foldgrad::testing
