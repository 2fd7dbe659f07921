// Tests that the emulation shows wrong uses of tensor-core instructions. Each launch has at most one fault.
#include <algorithm>
#include <cmath>

#include "emulation/sanitizers.h"
#include "engine/cuda/async_copy.h"
#include "engine/cuda/tensor_core.h"
#include "tests/emulation/kernels.h"

namespace foldgrad {
namespace {

using emulation::kThreadSanitizer;

int count_nan(const std::vector<float>& values) {
  return int(std::count_if(values.begin(), values.end(), [](float v) { return std::isnan(v); }));
}

enum class Fault { none, no_barrier, no_transposition, upper_half_first, plain_rows };

constexpr int kDepth = 64;

// Computes c [16, 8] = A B. A(i, k) is i, plus 16 if k = i, and B(k, j) is j. Two warps store A and B in shared memory;
// the second warp multiplies.
template <Fault kFault>
__global__ void product_kernel(Array p) {
  constexpr int kRow = kDepth + (kFault == Fault::plain_rows ? 0 : 8);
  bf16* a = dynamic_shared<bf16>();  // [16, kRow]; 16 extra bytes per row put the rows in different banks
  bf16* b = a + 16 * kRow;           // [kDepth, 8]
  for (int e = int(threadIdx.x); e < 16 * kDepth; e += 64)
    a[e / kDepth * kRow + e % kDepth] = bf16(float(e / kDepth + (e % kDepth == e / kDepth ? 16 : 0)));
  for (int e = int(threadIdx.x); e < kDepth * 8; e += 64) b[e] = bf16(float(e % 8));
  if (kFault != Fault::no_barrier) __syncthreads();
  if (threadIdx.x < 32) return;
  const int lane = int(threadIdx.x) - 32;
  FragmentC c = {};
  for (int k = 0; k < kDepth; k += 32) {
    std::uint32_t r[4];
    if (kFault == Fault::no_transposition)
      load_matrices(r, b + (k + lane) * 8);
    else
      load_matrices_transposed(r, b + (k + lane) * 8);
    for (int half = 0; half < 2; ++half) {
      FragmentA fa;
      load_matrices(fa.r, a + lane % 16 * kRow + k + 16 * half + lane / 16 * 8);
      if (kFault == Fault::upper_half_first) std::swap(fa.r[1], fa.r[2]);
      mma(c, fa, FragmentB{{r[2 * half], r[2 * half + 1]}});
    }
  }
  for (int e = 0; e < 4; ++e) p.data[(lane / 4 + e / 2 * 8) * 8 + lane % 4 * 2 + e % 2] = c.r[e];
}

const Grid kProduct = {1, 64, (16 * (kDepth + 8) + kDepth * 8) * sizeof(bf16)};

int wrong_products(const std::vector<float>& c) {
  int wrong = 0;
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 8; ++j) wrong += !(c[std::size_t(i * 8 + j)] == float((i * kDepth + 16) * j));
  return wrong;
}

TEST(EmulationTensorCores, NoneInTheProductItself) {
  for (const auto& c : in_all_orders(product_kernel<Fault::none>, kProduct, 128)) EXPECT_EQ(wrong_products(c), 0);
}

TEST(EmulationTensorCores, AMissingBarrierIsSeen) {
  const auto run = [] { return in_all_orders(product_kernel<Fault::no_barrier>, kProduct, 128); };
  if (kThreadSanitizer) return expect_race(run);
  // Even in ascending order, the first lanes of the second warp load before its other lanes have stored.
  for (const auto& c : run()) EXPECT_EQ(count_nan(c), 128);
}

TEST(EmulationTensorCores, AWrongLayoutIsSeen) {
  for (const auto& c : in_all_orders(product_kernel<Fault::no_transposition>, kProduct, 128))
    EXPECT_GT(wrong_products(c), 64);
  for (const auto& c : in_all_orders(product_kernel<Fault::upper_half_first>, kProduct, 128))
    EXPECT_GT(wrong_products(c), 64);
}

// Rows of 128 bytes all begin in the same bank. So a matrix of 8 rows takes 8 passes, 7 more than necessary.
TEST(EmulationTensorCores, BankConflictsAreCounted) {
  const auto conflicts = [](void (*kernel)(Array)) {
    std::vector<float> c(128);
    const auto before = emulation::counts().bank_conflicts;
    launch("product", kernel, kProduct, Array{c.data(), 0});
    return emulation::counts().bank_conflicts - before;
  };
  EXPECT_EQ(conflicts(product_kernel<Fault::none>), 0);
  EXPECT_EQ(conflicts(product_kernel<Fault::plain_rows>), kDepth / 16 * 4 * 7);
}

constexpr int kLoadLine = __LINE__ + 3;
__global__ void load_kernel(Integers p) {
  std::uint32_t r[4];
  load_matrices(r, dynamic_shared<unsigned char>() + p.n);
}

TEST(EmulationTensorCores, MisalignmentIsAnError) {
  const auto error = [](int offset) { return error_of_kernel(load_kernel, {1, 32, 64}, Integers{nullptr, offset}); };
  const std::string start = kFirstThread + "ldmatrix" + at(kLoadLine);
  EXPECT_EQ(error(48), "no error");
  EXPECT_EQ(error(8), start + " needs an offset that is a multiple of 16 bytes, got byte 8 of shared memory");
  EXPECT_EQ(error(49), start + " does not stay within the 64 bytes of shared memory");
  EXPECT_EQ(error(-16), start + " does not stay within the 64 bytes of shared memory");
}

constexpr int kAbsentLine = __LINE__ + 4;
__global__ void absent_kernel(Integers p) {
  FragmentC c = {};
  if (int(threadIdx.x) == p.n) return;
  mma(c, FragmentA{}, FragmentB{});
}

TEST(EmulationTensorCores, AnAbsentLaneIsAnError) {
  EXPECT_EQ(error_of_kernel(absent_kernel, {1, 32}, Integers{nullptr, 5}),
            kFirstThread + "mma with mask 0xffffffff" + at(kAbsentLine) + " waits for lane 5, which has returned");
  EXPECT_EQ(error_of_kernel(absent_kernel, {1, 32}, Integers{nullptr, 32}), "no error");
}

}  // namespace
}  // namespace foldgrad
