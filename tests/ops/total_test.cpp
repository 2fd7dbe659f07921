// Tests sums over the rows of a matrix.
#include "ops/total/total.h"

#include "engine/cpu/column_sums.h"
#include "engine/cpu/threads.h"
#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

Tensor column_sums_on(Device device, const Tensor& x) {
  const Tensor on_device = x.to(device), out = Tensor::full({x.shape()[1]}, NAN, DType::f64, device);
  const ColumnTotals<double> p{
      .out = {out.data<double>()}, .values = on_device.data<double>(), .rows = x.shape()[0], .columns = x.shape()[1]};
  FOLDGRAD_RUN(device, column_sums, p);
  return out.to(Device::cpu);
}

// Sums of integers are exact in any order. A GPU divides 140,000 rows of one column into the largest number of parts,
// kMostRowParts.
TEST(ColumnSums, AreTheSumsOfTheColumns) {
  for (auto [rows, columns] :
       {std::pair{0, 3}, {1, 1}, {7, 31}, {8, 32}, {9, 33}, {16, 5}, {17, 5}, {1000, 65}, {140000, 1}}) {
    const Tensor x = randn({rows, columns}, 1, 100), want = Tensor::zeros({columns}, DType::f64);
    for (std::int64_t i = 0; i < x.size(); ++i) {
      x.data<double>()[i] = std::round(x.data<double>()[i]);
      want.data<double>()[i % columns] += x.data<double>()[i];
    }
    for (Device device : devices()) EXPECT_TRUE(identical(column_sums_on(device, x), want)) << rows << " x " << columns;
  }
}

TEST(ColumnSums, HaveTheSameBitsWithAnyNumberOfThreads) {
  const int before = threads();
  const Tensor x = randn({3000, 40}, 2);
  const Tensor want = column_sums_on(Device::cpu, x);
  for (int n : {1, 2, 3, 7}) {
    set_threads(n);
    EXPECT_TRUE(identical(column_sums_on(Device::cpu, x), want)) << n << " threads";
  }
  set_threads(before);
}

}  // namespace
}  // namespace foldgrad::testing
