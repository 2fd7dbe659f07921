// Tests that the emulation reports each kind of fault that it promises to report. Each launch has at most one fault.
#include <algorithm>
#include <cmath>

#include "emulation/sanitizers.h"
#include "tests/emulation/kernels.h"

namespace foldgrad {
namespace {

using emulation::kAddressSanitizer;
using emulation::kThreadSanitizer;

// Reverses the values of each block twice through shared memory, and adds 1 to them before the second time.
template <bool kWriteBarrier, bool kReadBarrier>
__global__ void turn_round_kernel(Array p) {
  float* scratch = dynamic_shared<float>();
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x, mirror = blockDim.x - 1 - threadIdx.x;
  for (int round = 0; round < 2; ++round) {
    scratch[threadIdx.x] = p.data[i] + float(round);
    if (kReadBarrier) __syncthreads();
    p.data[i] = scratch[mirror];
    if (kWriteBarrier) __syncthreads();
  }
}

const Grid kTurnRound = {2, 64, 64 * sizeof(float)};

void expect_race_of(void (*kernel)(Array), const Grid& grid, int n) {
  expect_race([&] { in_all_orders(kernel, grid, n); });
}

// Checks that ThreadSanitizer reports a race or, in other builds, that each thread order gives a different result.
void expect_seen(void (*kernel)(Array), const Grid& grid, int n) {
  if (kThreadSanitizer) return expect_race_of(kernel, grid, n);
  const auto results = in_all_orders(kernel, grid, n);
  EXPECT_NE(results[0], results[1]);
  EXPECT_NE(results[0], results[2]);
  EXPECT_NE(results[1], results[2]);
}

TEST(Emulation, BarriersMakeOrdersAgree) {
  for (const auto& result : in_all_orders(turn_round_kernel<true, true>, kTurnRound, 128))
    for (int i = 0; i < 128; ++i) ASSERT_EQ(result[i], float(i + 2)) << i;
}

TEST(Emulation, MissingBarrierBeforeReadIsSeen) { expect_seen(turn_round_kernel<true, false>, kTurnRound, 128); }

TEST(Emulation, MissingBarrierBeforeWriteIsSeen) { expect_seen(turn_round_kernel<false, true>, kTurnRound, 128); }

// Neighbouring lanes exchange values through shared memory, which requires __syncwarp().
template <bool kBarrier>
__global__ void neighbour_kernel(Array p) {
  float* scratch = dynamic_shared<float>();
  scratch[threadIdx.x] = p.data[threadIdx.x];
  if (kBarrier) __syncwarp();
  p.data[threadIdx.x] = scratch[threadIdx.x ^ 1];
}

const Grid kNeighbours = {1, 64, 64 * sizeof(float)};

TEST(Emulation, SyncwarpOrdersTheWarp) {
  for (const auto& result : in_all_orders(neighbour_kernel<true>, kNeighbours, 64))
    for (int i = 0; i < 64; ++i) ASSERT_EQ(result[i], float((i ^ 1) + 1)) << i;
}

TEST(Emulation, MissingSyncwarpIsSeen) {
  if (kThreadSanitizer) return expect_race_of(neighbour_kernel<false>, kNeighbours, 64);
  for (const auto& result : in_all_orders(neighbour_kernel<false>, kNeighbours, 64))
    EXPECT_EQ(std::count_if(result.begin(), result.end(), [](float v) { return std::isnan(v); }), 32);
}

// The functions in which the lanes of a warp wait for each other. Only __syncwarp() also makes earlier writes visible.
enum class Meeting { shuffle, ballot, shuffle_and_syncwarp };
template <Meeting kMeeting>
__global__ void met_neighbour_kernel(Array p) {
  float* scratch = dynamic_shared<float>();
  scratch[threadIdx.x] = p.data[threadIdx.x];
  const bool all = kMeeting == Meeting::ballot ? __ballot_sync(kAll, 1) != 0 : __shfl_xor_sync(kAll, 1, 1) == 1;
  if (kMeeting == Meeting::shuffle_and_syncwarp) __syncwarp();
  p.data[threadIdx.x] = all ? scratch[threadIdx.x ^ 1] : 0;
}

TEST(Emulation, ShufflesAndBallotsOrderNoMemory) {
  if (!kThreadSanitizer) GTEST_SKIP() << "only ThreadSanitizer distinguishes waiting from ordering memory";
  expect_race_of(met_neighbour_kernel<Meeting::shuffle>, kNeighbours, 64);
  expect_race_of(met_neighbour_kernel<Meeting::ballot>, kNeighbours, 64);
  for (const auto& result : in_all_orders(met_neighbour_kernel<Meeting::shuffle_and_syncwarp>, kNeighbours, 64))
    for (int i = 0; i < 64; ++i) ASSERT_EQ(result[i], float((i ^ 1) + 1)) << i;
}

constexpr int kDivergentLine = __LINE__ + 4;
__global__ void divergent_barrier_kernel(Array p) {
  __syncthreads();
  if (int(threadIdx.x) < p.n)
    __syncthreads();
  else
    __syncthreads();
}

TEST(Emulation, DivergentBarrierIsAnError) {
  EXPECT_EQ(error_of_kernel(divergent_barrier_kernel, {dim3(2, 3), dim3(8, 16)}, Array{nullptr, 3}),
            kFirstThread + "__syncthreads" + at(kDivergentLine) +
                " waits for thread (3, 0, 0), which waits in __syncthreads" + at(kDivergentLine + 2));
  EXPECT_EQ(error_of_kernel(divergent_barrier_kernel, {dim3(2, 3), dim3(8, 16)}, Array{nullptr, 8}), "no error");
}

constexpr int kEarlyReturnLine = __LINE__ + 3;
__global__ void early_return_kernel(Array p) {
  if (int(blockIdx.y) == 1 && int(threadIdx.x) >= p.n) return;
  __syncthreads();
}

TEST(Emulation, EarlyReturnBeforeABarrierIsAnError) {
  EXPECT_EQ(error_of_kernel(early_return_kernel, {dim3(1, 2), 64}, Array{nullptr, 63}),
            "emulation: kernel 'planted', block (0, 1, 0), thread (0, 0, 0): __syncthreads" + at(kEarlyReturnLine) +
                " waits for thread (63, 0, 0), which has returned");
  EXPECT_EQ(error_of_kernel(early_return_kernel, {dim3(1, 2), 64}, Array{nullptr, 64}), "no error");
}

constexpr int kAbsentLine = __LINE__ + 5;
__global__ void absent_lane_kernel(Integers p) {
  const int lane = int(threadIdx.x % 32);
  if (p.n == 0 && lane == 7) return;
  if (p.n == 1 && lane == 7) __syncthreads();
  const float sum = __shfl_xor_sync(p.n == 2 && lane == 7 ? 0x80u : kAll, 1.0f, p.n == 2 && lane == 7 ? 0 : 1);
  const unsigned other = p.n == 3 && lane == 7 ? __ballot_sync(kAll, 1) : 0;
  p.data[threadIdx.x] = int(other) + int(__shfl_sync(kAll, sum, 0));
}

TEST(Emulation, ShuffleWithAnAbsentLaneIsAnError) {
  std::vector<int> data(64);
  const auto error = [&](int variant, unsigned threads) {
    return error_of_kernel(absent_lane_kernel, {1, threads}, Integers{data.data(), variant});
  };
  const std::string call = "__shfl_xor_sync with mask 0xffffffff" + at(kAbsentLine);
  EXPECT_EQ(error(0, 64), kFirstThread + call + " waits for lane 7, which has returned");
  EXPECT_EQ(error(1, 64),
            kFirstThread + call + " waits for lane 7, which waits in __syncthreads" + at(kAbsentLine - 1));
  EXPECT_EQ(error(3, 64), kFirstThread + "__shfl_sync with mask 0xffffffff" + at(kAbsentLine + 2) +
                              " waits for lane 7, which waits in __ballot_sync with mask 0xffffffff" +
                              at(kAbsentLine + 1));
  EXPECT_EQ(error(4, 40), "emulation: kernel 'planted', block (0, 0, 0), thread (32, 0, 0): " + call +
                              " waits for lane 8, which the block does not have");
  EXPECT_EQ(error(4, 64), "no error");
  // Lane 7 names only itself in its mask, so it completes its shuffle. The other lanes wait for it at the same line.
  EXPECT_EQ(error(2, 64), kFirstThread + call + " waits for lane 7, which waits in __shfl_sync with mask 0xffffffff" +
                              at(kAbsentLine + 2));
}

constexpr int kMaskLine = __LINE__ + 1;
__global__ void wrong_mask_kernel(Integers p) { p.data[threadIdx.x] = __shfl_xor_sync(unsigned(p.n), 1, 16); }

TEST(Emulation, MaskMustNameTheLaneAndItsSource) {
  std::vector<int> data(32);
  const std::string start = kFirstThread + "__shfl_xor_sync with mask ";
  EXPECT_EQ(error_of_kernel(wrong_mask_kernel, {1, 32}, Integers{data.data(), 0x6}),
            start + "0x00000006" + at(kMaskLine) + " does not name its own lane");
  EXPECT_EQ(error_of_kernel(wrong_mask_kernel, {1, 32}, Integers{data.data(), 0xffff}),
            start + "0x0000ffff" + at(kMaskLine) + " reads lane 16, which is not in the mask");
}

__global__ void overrun_kernel(Integers p) {
  if (blockIdx.x == 1 && threadIdx.x == 3) dynamic_shared<int>()[p.n] = 1;
}

TEST(Emulation, SharedMemoryOverrunIsAnError) {
  EXPECT_EQ(error_of_kernel(overrun_kernel, {2, 32, 5 * sizeof(int)}, Integers{nullptr, 4}), "no error");
  if (kAddressSanitizer) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_DEATH(error_of_kernel(overrun_kernel, {2, 32, 5 * sizeof(int)}, Integers{nullptr, 5}),
                 "heap-buffer-overflow");
    EXPECT_DEATH(error_of_kernel(overrun_kernel, {2, 32}, Integers{nullptr, 0}), "heap-buffer-overflow");
    return;
  }
  const std::string start = "emulation: kernel 'planted', block (1, 0, 0): a thread wrote past the ";
  EXPECT_EQ(error_of_kernel(overrun_kernel, {2, 32, 5 * sizeof(int)}, Integers{nullptr, 5}),
            start + "20 bytes of shared memory, at byte 20");
  EXPECT_EQ(error_of_kernel(overrun_kernel, {2, 32}, Integers{nullptr, 1023}),
            start + "0 bytes of shared memory, at byte 4092");
}

// Reads shared memory that no thread has written, then leaves a value there that the next block must not see.
__global__ void uninitialised_kernel(Array p) {
  float* scratch = dynamic_shared<float>();
  p.data[blockIdx.x * blockDim.x + threadIdx.x] = scratch[threadIdx.x];
  __syncthreads();
  scratch[threadIdx.x] = 1;
}

TEST(Emulation, UninitialisedSharedMemoryIsNaNInEveryBlock) {
  for (const auto& result : in_all_orders(uninitialised_kernel, {2, 64, 64 * sizeof(float)}, 128))
    for (int i = 0; i < 128; ++i) ASSERT_TRUE(std::isnan(result[i])) << i;
}

}  // namespace
}  // namespace foldgrad
