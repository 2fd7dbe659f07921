// Tests the guarantees on which correct kernels rely, and the limits, overlaps and exceptions of launches.
#include <algorithm>
#include <thread>

#include "emulation/sanitizers.h"
#include "tests/emulation/kernels.h"

namespace foldgrad {
namespace {

using emulation::kThreadSanitizer;

__device__ float warp_sum(float v) {
  for (int distance = 16; distance > 0; distance /= 2) v += __shfl_xor_sync(kAll, v, distance);
  return v;
}

// Replaces each value with the sum of the values of its block.
__global__ void __launch_bounds__(256) block_sum_kernel(Array p) {
  float* scratch = dynamic_shared<float>();
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float sum = warp_sum(p.data[i]);
  if (lane == 0) scratch[warp] = sum;
  __syncthreads();
  sum = warp_sum(lane < blockDim.x / 32 ? scratch[lane] : 0.0f);
  p.data[i] = sum;
}

TEST(Emulation, CorrectReductionPassesInAllOrders) {
  for (const auto& result : in_all_orders(block_sum_kernel, {3, 256, 8 * sizeof(float)}, 3 * 256))
    for (int i = 0; i < 3 * 256; ++i) ASSERT_EQ(result[i], 32896.0f + 65536.0f * float(i / 256)) << i;
}

__global__ void indices_kernel(Integers p) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  p.data[block * blockDim.x * blockDim.y * blockDim.z + thread] += int(block * 1000 + thread);
}

TEST(Emulation, EachThreadOfTheGridRunsOnce) {
  for (const Order order : kOrders) {
    const OrderScope scope(order);
    std::vector<int> data(24 * 30);
    launch("indices", indices_kernel, {dim3(2, 3, 4), dim3(5, 3, 2)}, Integers{data.data(), 0});
    for (int i = 0; i < 24 * 30; ++i) ASSERT_EQ(data[i], i / 30 * 1000 + i % 30) << i;
  }
}

// Each thread appends its number to a list, whose length is p.data[0].
__global__ void record_kernel(Integers p) {
  p.data[1 + __atomic_fetch_add(&p.data[0], 1, __ATOMIC_RELAXED)] = int(blockIdx.x * blockDim.x + threadIdx.x);
}

std::vector<int> recorded(Order order, unsigned seed) {
  const OrderScope scope(order, seed);
  std::vector<int> data(1 + 4 * 64);
  launch("record", record_kernel, {4, 64}, Integers{data.data(), 0});
  EXPECT_EQ(data[0], 256);
  data.erase(data.begin());
  return data;
}

TEST(Emulation, OrdersAreWhatTheirNamesSay) {
  std::vector<int> expected(256);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(recorded(Order::ascending, 1), expected);
  EXPECT_EQ(recorded(Order::descending, 1), std::vector<int>(expected.rbegin(), expected.rend()));
  std::vector<int> shuffled = recorded(Order::shuffled, 1);
  EXPECT_NE(shuffled, expected);
  EXPECT_EQ(shuffled, recorded(Order::shuffled, 1));
  EXPECT_NE(shuffled, recorded(Order::shuffled, 2));
  std::sort(shuffled.begin(), shuffled.end());
  EXPECT_EQ(shuffled, expected);
}

__global__ void warp_functions_kernel(Integers p) {
  const int lane = int(threadIdx.x);
  int* out = p.data + lane * 4;
  out[0] = __shfl_sync(kAll, lane, 5);
  out[1] = __shfl_sync(kAll, lane, 41);  // lane 41 wraps around to lane 9
  out[2] = __shfl_xor_sync(kAll, lane, 9);
  out[3] = int(__ballot_sync(kAll, lane % 3 == 0));
}

TEST(Emulation, WarpFunctionsFollowCuda) {
  for (const Order order : kOrders) {
    const OrderScope scope(order);
    std::vector<int> data(32 * 4);
    launch("warp functions", warp_functions_kernel, {1, 32}, Integers{data.data(), 0});
    for (int lane = 0; lane < 32; ++lane) {
      const std::vector<int> got(data.begin() + lane * 4, data.begin() + lane * 4 + 4);
      ASSERT_EQ(got, (std::vector<int>{5, 9, lane ^ 9, 0x49249249})) << lane;
    }
  }
}

// The first half of the warp makes four shuffles, and the second half makes one. Then all lanes make one together.
__global__ void half_warps_kernel(Array p) {
  const unsigned i = threadIdx.x, half = i % 32 / 16;
  float v = p.data[i];
  if (half == 0)
    for (int distance = 8; distance > 0; distance /= 2) v += __shfl_xor_sync(0xffffu, v, distance);
  else
    v = __shfl_sync(0xffff0000u, v, 31);
  p.data[i] = v + __shfl_xor_sync(kAll, v, 16);
}

TEST(Emulation, PartsOfAWarpExchangeOnTheirOwn) {
  for (const auto& result : in_all_orders(half_warps_kernel, {1, 32}, 32))
    for (int i = 0; i < 32; ++i) ASSERT_EQ(result[i], 136.0f + 32.0f) << i;
}

template <class T>
struct Wide {
  T* data;
};

template <class T>
__global__ void wide_kernel(Wide<T> p) {
  p.data[threadIdx.x] = __shfl_xor_sync(kAll, p.data[threadIdx.x], 1);
}

TEST(Emulation, ShufflesCarryEightBytes) {
  std::vector<double> reals(32);
  std::vector<unsigned long long> integers(32);
  for (int i = 0; i < 32; ++i) reals[i] = 1.0 / (i + 1), integers[i] = ~0ull - unsigned(i);
  launch("wide", wide_kernel<double>, {1, 32}, Wide<double>{reals.data()});
  launch("wide", wide_kernel<unsigned long long>, {1, 32}, Wide<unsigned long long>{integers.data()});
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(reals[i], 1.0 / ((i ^ 1) + 1));
    EXPECT_EQ(integers[i], ~0ull - unsigned(i ^ 1));
  }
}

struct CountDown {
  int* alive;
  explicit CountDown(int* counter) : alive(counter) { ++*alive; }
  ~CountDown() { --*alive; }
};

// Thread p.n of the second block throws while others wait in __syncwarp() or __syncthreads(). p.data counts the objects
// on the threads' stacks, which must be destroyed. No thread may continue afterwards.
__global__ void throwing_kernel(Integers p) {
  const CountDown scope(p.data + threadIdx.x);
  if (threadIdx.x >= 32) __syncwarp();
  if (int(threadIdx.x) == p.n && blockIdx.x == 1) throw std::out_of_range("thrown by thread " + std::to_string(p.n));
  __syncthreads();
  if (p.n >= 0 && blockIdx.x == 1) p.data[threadIdx.x] = 1000;
}

TEST(Emulation, ExceptionsComeOutAndLeaveNothingBehind) {
  for (const Order order : kOrders) {
    const OrderScope scope(order);
    for (const int thread : {0, 31, 40, 95}) {
      std::vector<int> alive(96);
      EXPECT_EQ(testing::message<std::out_of_range>([&] {
                  launch("throwing", throwing_kernel, {2, 96}, Integers{alive.data(), thread});
                }),
                "thrown by thread " + std::to_string(thread));
      EXPECT_EQ(alive, std::vector<int>(96));
      launch("throwing", throwing_kernel, {2, 96}, Integers{alive.data(), -1});
    }
  }
}

__global__ void empty_kernel(Integers) {}

TEST(Emulation, LimitsOfAGpuAreEnforced) {
  const auto error = [](const Grid& grid) { return error_of_kernel(empty_kernel, grid, Integers{}); };
  const std::string start = "emulation: kernel 'planted': ";
  EXPECT_EQ(error({1, dim3(32, 32), 99 * 1024}), "no error");
  EXPECT_EQ(error({1, dim3(1025)}), start + "a block has 1 to 1024 threads, at most 64 in z, got (1025, 1, 1)");
  EXPECT_EQ(error({1, dim3(32, 11, 3)}), start + "a block has 1 to 1024 threads, at most 64 in z, got (32, 11, 3)");
  EXPECT_EQ(error({1, dim3(1, 0)}), start + "a block has 1 to 1024 threads, at most 64 in z, got (1, 0, 1)");
  EXPECT_EQ(error({1, dim3(1, 1, 65)}), start + "a block has 1 to 1024 threads, at most 64 in z, got (1, 1, 65)");
  EXPECT_EQ(error({1, 32, 99 * 1024 + 1}), start + "a block has at most 101376 bytes of shared memory, got 101377");
  const std::string most = "planted: a grid must have at most 2147483647 x 65535 x 65535 blocks, got ";
  EXPECT_EQ(error({dim3(1, 65536), 1}), most + "1 x 65536 x 1");
  EXPECT_EQ(error({dim3(1, 1, 65536), 1}), most + "1 x 1 x 65536");
  EXPECT_EQ(error({std::int64_t(1) << 31, 1}), most + "2147483648 x 1 x 1");
  EXPECT_EQ(error({(std::int64_t(1) << 32) + 1, 1}), most + "4294967297 x 1 x 1");  // would be 1 in 32 bits
  if (!kThreadSanitizer) {                                                          // this would take seconds
    EXPECT_EQ(error({dim3(1, 65535), 1}), "no error");
  }
}

const char* const kBusy =
    "emulation: kernel 'inner' launched while another runs: launch from one host thread at a time, not from kernels";

TEST(Emulation, LaunchesDoNotOverlap) {
  const auto inner = [] { emulation::run("inner", 1, 1, 0, [] {}); };
  EXPECT_EQ(error_of([&] { emulation::run("outer", 1, 64, 0, inner); }), kBusy);
  EXPECT_EQ(error_of([&] {
              emulation::run("outer", 1, 1, 0, [&] { std::thread([&] { EXPECT_EQ(error_of(inner), kBusy); }).join(); });
            }),
            "no error");
  EXPECT_EQ(error_of(inner), "no error");
}

TEST(Emulation, LaunchesMayComeFromDifferentThreads) {
  for (int i = 0; i < 3; ++i)
    std::thread([] {
      for (const auto& result : in_all_orders(block_sum_kernel, {1, 64, 2 * sizeof(float)}, 64))
        EXPECT_EQ(result, std::vector<float>(64, 2080.0f));
    }).join();
}

TEST(Emulation, BarriersBelongInKernels) {
  EXPECT_EQ(error_of([] { __syncthreads(); }), std::string("emulation: __syncthreads outside of a kernel at ") +
                                                   __FILE__ + ":" + std::to_string(__LINE__ - 1));
}

TEST(Emulation, ThreadsThatNeverWaitShareASwitch) {
  if (kThreadSanitizer) GTEST_SKIP() << "each thread has its own fiber";
  const emulation::Counts before = emulation::counts();
  launch("empty", empty_kernel, {10, 128}, Integers{});
  EXPECT_EQ(emulation::counts().launches - before.launches, 1);
  EXPECT_EQ(emulation::counts().switches - before.switches, 10 * 4);
}

}  // namespace
}  // namespace foldgrad
