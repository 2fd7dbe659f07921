// Tests that the emulation shows wrong uses of asynchronous copies. Each launch has at most one fault.
#include "emulation/sanitizers.h"
#include "engine/cuda/async_copy.h"
#include "tests/emulation/kernels.h"

namespace foldgrad {
namespace {

enum class Fault { none, no_wait, no_commit, wait_for_too_few, no_barrier, reused_early, changed_source };

constexpr int kThreads = 64, kRounds = 3, kColumns = 4 * kThreads;

// Copies the three rows of p.data to shared memory, with two rows in flight at a time. Each thread sums one column,
// which another thread has copied. At the end the sums replace the beginning of the first row.
template <Fault kFault>
__global__ void pipeline_kernel(Array p) {
  float* stages = dynamic_shared<float>();  // [2, kColumns]
  const int mine = 4 * int(threadIdx.x), other = kColumns - 4 - mine;
  const auto issue = [&](int row) {
    const bool inside = row < kRounds;
    async_copy16(stages + row % 2 * kColumns + mine, p.data + (inside ? row * kColumns : 0) + mine, inside);
    if (kFault != Fault::no_commit) async_commit();
  };
  float sum = 0;
  issue(0);
  if (kFault == Fault::changed_source) p.data[mine] = -1000;
  for (int row = 0; row < kRounds; ++row) {
    issue(row + 1);
    if (kFault == Fault::wait_for_too_few) async_wait<2>();
    if (kFault != Fault::no_wait && kFault != Fault::wait_for_too_few) async_wait<1>();
    if (kFault != Fault::no_barrier) __syncthreads();
    sum += stages[row % 2 * kColumns + other];
    if (kFault != Fault::reused_early) __syncthreads();
  }
  async_commit();
  async_wait<0>();
  __syncthreads();
  p.data[threadIdx.x] = sum;
}

const Grid kPipeline = {1, kThreads, 2 * kColumns * sizeof(float)};

bool right(const std::vector<float>& data) {
  for (int t = 0; t < kThreads; ++t) {
    float want = 0;
    for (int row = 0; row < kRounds; ++row) want += float(row * kColumns + kColumns - 4 - 4 * t + 1);
    if (!(data[std::size_t(t)] == want)) return false;
  }
  return true;
}

// Returns the number of thread orders, out of three, in which the result is right.
template <Fault kFault>
int right_orders() {
  int n = 0;
  for (const auto& data : in_all_orders(pipeline_kernel<kFault>, kPipeline, kRounds * kColumns)) n += right(data);
  return n;
}

TEST(EmulationAsyncCopies, NoneInThePipelineItself) { EXPECT_EQ(right_orders<Fault::none>(), 3); }

// In ascending order, copies happen at once, which hides the fault. In descending order they happen as late as
// possible, and in shuffled order at random times; both expose the fault.
TEST(EmulationAsyncCopies, AMissingWaitIsSeen) {
  EXPECT_EQ(right_orders<Fault::no_wait>(), 1);
  EXPECT_EQ(right_orders<Fault::wait_for_too_few>(), 1);
  EXPECT_EQ(right_orders<Fault::no_commit>(), 1);
}

template <Fault kFault>
void expect_race_or_nothing_right() {
  if (emulation::kThreadSanitizer) return expect_race(right_orders<kFault>);
  EXPECT_EQ(right_orders<kFault>(), 0);
}

TEST(EmulationAsyncCopies, AMissingBarrierIsSeen) { expect_race_or_nothing_right<Fault::no_barrier>(); }

TEST(EmulationAsyncCopies, ABufferUsedAgainTooEarlyIsSeen) { expect_race_or_nothing_right<Fault::reused_early>(); }

TEST(EmulationAsyncCopies, AChangedSourceIsSeen) { EXPECT_EQ(right_orders<Fault::changed_source>(), 1); }

constexpr int kCopyLine = __LINE__ + 3;
__global__ void copy_kernel(Integers p) {
  unsigned char* shared = dynamic_shared<unsigned char>();
  async_copy16(shared + p.n / 100, reinterpret_cast<unsigned char*>(p.data) + p.n % 100, true);
  async_commit();
  if (p.n != 16) async_wait<0>();
}

TEST(EmulationAsyncCopies, MisalignmentAndForgottenCopiesAreErrors) {
  alignas(16) int data[16] = {};
  const auto error = [&](int offsets) { return error_of_kernel(copy_kernel, {1, 1, 32}, Integers{data, offsets}); };
  EXPECT_EQ(error(1632), "no error");
  const std::string copy = "cp.async" + at(kCopyLine);
  EXPECT_EQ(error(800),
            kFirstThread + copy + " needs an offset that is a multiple of 16 bytes, got byte 8 of shared memory");
  EXPECT_EQ(error(3200), kFirstThread + copy + " does not stay within the 32 bytes of shared memory");
  EXPECT_EQ(error(8), kFirstThread + copy + " needs an address at a multiple of 16 bytes, got one 8 past it");
  EXPECT_EQ(error(16), kFirstThread + "has returned without waiting for its " + copy);
  EXPECT_EQ(error(1632), "no error");
}

}  // namespace
}  // namespace foldgrad
