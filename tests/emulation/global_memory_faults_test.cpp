// Tests that the emulation of packs counts accesses to global memory, and reports faulty accesses.
#include "emulation/global_memory.h"
#include "engine/cuda/pack.h"
#include "tests/emulation/kernels.h"
#include "tests/harness/traffic.h"

namespace foldgrad {
namespace {

constexpr int kThreads = 96;

alignas(32) float memory[8 * kThreads];

// Each thread doubles four adjacent floats. With a stride of 8, there are gaps between the packs of neighbouring
// threads.
template <int kStride>
__global__ void double_kernel(Array p) {
  const int i = kStride * int(threadIdx.x);
  Pack<float, 4> pack = load_own_pack<4>(p.data + i, i < p.n);
  for (float& v : pack.v) v *= 2;
  store_pack(p.data + i, pack, i < p.n);
}

template <class Kernel>
emulation::GlobalAccesses accesses_of(Kernel* kernel, int offset, int n) {
  const emulation::CountAccesses count;
  launch("double", kernel, {1, kThreads}, Array{memory + offset, n});
  return count.result();
}

void expect_accesses(const emulation::GlobalAccesses& got, std::int64_t bytes, std::int64_t sectors,
                     std::int64_t least) {
  EXPECT_EQ(got.bytes, bytes);
  EXPECT_EQ(got.sectors, sectors);
  EXPECT_EQ(got.least, least);
}

TEST(GlobalMemory, WholeSectorsAreTheLeast) {
  for (const Order order : kOrders) {
    const OrderScope scope(order);
    // Three warps load and store 512 bytes each, 16 sectors.
    expect_accesses(accesses_of(double_kernel<4>, 0, 4 * kThreads), 2 * 3 * 512, 2 * 3 * 16, 2 * 3 * 16);
  }
}

// Only one lane of the second warp has work, and no lane of the third. Loads and stores without work must not count.
TEST(GlobalMemory, UnwantedAccessesAreNone) {
  expect_accesses(accesses_of(double_kernel<4>, 0, 4 * 33), 2 * (512 + 16), 2 * (16 + 1), 2 * (16 + 1));
  memory[4 * 33] = 7;
  accesses_of(double_kernel<4>, 0, 4 * 33);
  EXPECT_EQ(memory[4 * 33], 7);
}

// If 512 bytes begin in the middle of a sector, they touch 17 sectors, and cannot touch fewer.
TEST(GlobalMemory, ALateBeginCostsASector) {
  expect_accesses(accesses_of(double_kernel<4>, 4, 4 * 32), 2 * 512, 2 * 17, 2 * 17);
}

TEST(GlobalMemory, AStrideIsSeen) {
  EXPECT_TRUE(testing::whole_sectors(accesses_of(double_kernel<4>, 4, 4 * 32)));
  EXPECT_FALSE(testing::whole_sectors(accesses_of(double_kernel<8>, 0, 8 * kThreads)));
  expect_accesses(accesses_of(double_kernel<8>, 0, 8 * kThreads), 2 * 3 * 512, 2 * 3 * 32, 2 * 3 * 16);
}

TEST(GlobalMemory, OnlyWhatHappensMeanwhileCounts) {
  launch("double", double_kernel<4>, {1, kThreads}, Array{memory, 4 * kThreads});
  expect_accesses(accesses_of(double_kernel<4>, 0, 4), 2 * 16, 2, 2);
}

constexpr int kLoadLine = __LINE__ + 1;
__global__ void load_kernel(Array p) { p.data[0] = load_pack<4>(p.data + p.n).v[0]; }

TEST(GlobalMemory, MisalignmentIsAnError) {
  EXPECT_EQ(error_of_kernel(load_kernel, {1, 1}, Array{memory, 4}), "no error");
  EXPECT_EQ(
      error_of_kernel(load_kernel, {1, 1}, Array{memory, 3}),
      kFirstThread + "load_pack" + at(kLoadLine) + " needs an address at a multiple of 16 bytes, got one 12 past it");
}

constexpr int kUnevenLine = __LINE__ + 3;
__global__ void uneven_kernel(Array p) {
  float* own = p.data + 4 * threadIdx.x;
  if (threadIdx.x != 1) load_pack<4>(own);
  store_pack(own, load_pack<4>(own));
}

// The emulation counts the n-th accesses of all lanes of a warp together. Lane 1 skips the first load, so its n-th
// access differs from the n-th access of lane 0.
TEST(GlobalMemory, LanesThatSkipAnAccessAreAnError) {
  const emulation::CountAccesses count;
  EXPECT_EQ(error_of_kernel(uneven_kernel, {1, 2}, Array{memory, 0}),
            "emulation: kernel 'planted', block (0, 0, 0), thread (1, 0, 0): load_pack" + at(kUnevenLine + 1) +
                ", but another lane of the warp calls load_pack" + at(kUnevenLine) +
                ": all lanes must make the same accesses, even unwanted ones");
}

}  // namespace
}  // namespace foldgrad
