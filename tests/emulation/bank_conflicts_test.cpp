// Tests that the emulation of shared_array() counts bank conflicts in shared memory.
#include "emulation/bank_conflicts.h"

#include "tests/emulation/kernels.h"

namespace foldgrad {
namespace {

// Each of the first p.n threads stores one number. The numbers are kStride elements apart.
template <class T, int kStride>
__global__ void store_kernel(Integers p) {
  const SharedArray<T> shared = shared_array<T>();
  const int i = int(threadIdx.x);
  if (i < p.n) shared[kStride * i] = T(i);
}

template <class T, int kStride>
int ways(int lanes = 32) {
  const emulation::WorstBankConflict conflict;
  launch("store", store_kernel<T, kStride>, {1, 64, 64 * kStride * sizeof(T)}, Integers{nullptr, lanes});
  return conflict.ways();
}

// With a stride of 33 words, neighbouring lanes use neighbouring banks. A double fills two banks, so only 16 lanes
// access memory at a time.
TEST(BankConflicts, WaysAreTheWordsOfOneBank) {
  for (const Order order : kOrders) {
    const OrderScope scope(order);
    EXPECT_EQ((ways<float, 1>()), 1);
    EXPECT_EQ((ways<float, 2>()), 2);
    EXPECT_EQ((ways<float, 8>()), 8);
    EXPECT_EQ((ways<float, 33>()), 1);
    EXPECT_EQ((ways<double, 1>()), 1);
    EXPECT_EQ((ways<double, 4>()), 4);
    EXPECT_EQ((ways<double, 8>()), 8);
    EXPECT_EQ((ways<float, 8>(2)), 1) << "if only two lanes store";
    EXPECT_EQ((ways<float, 8>(0)), 0);
  }
}

// All lanes read one word, which takes one pass. Even and odd lanes then store in different branches, so they do not
// conflict with each other. If p.n is positive, all lanes store in one bank afterwards.
__global__ void branches_kernel(Integers p) {
  const SharedArray<float> shared = shared_array<float>();
  const int i = int(threadIdx.x);
  const float first = shared[0];
  if (i % 2 == 0)
    shared[16 * i + 16] = first;
  else
    shared[16 * i + 1] = first;
  if (p.n > 0) shared[32 * i + 32] = first;
}

TEST(BankConflicts, LanesMeetAtOnePlaceInTheSource) {
  const auto worst = [](int n) {
    const emulation::WorstBankConflict conflict;
    launch("branches", branches_kernel, {1, 32, 33 * 32 * 4}, Integers{nullptr, n});
    return std::pair(conflict.ways(), conflict.where());
  };
  EXPECT_EQ(worst(0).first, 16);
  EXPECT_EQ(worst(1).first, 32);
  EXPECT_NE(worst(1).second.find("branches at " __FILE__ ":"), std::string::npos) << worst(1).second;
}

TEST(BankConflicts, OutsideIsAnError) {
  EXPECT_EQ(error_of_kernel(store_kernel<float, 1>, {1, 1, 4}, Integers{nullptr, 1}), "no error");
  const std::string error = error_of_kernel(store_kernel<float, 1>, {1, 1, 3}, Integers{nullptr, 1});
  EXPECT_NE(error.find("does not stay within the 3 bytes of shared memory"), std::string::npos) << error;
}

}  // namespace
}  // namespace foldgrad
