// Tests in which cases attention uses tensor cores, and counts the kernels' matrix instructions, accesses and blocks.
#if defined(FOLDGRAD_EMULATE) && defined(FOLDGRAD_FAST)
#include "emulation/cuda_emulation.h"
#include "emulation/global_memory.h"
#include "tests/harness/op_spec.h"
#include "tests/ops/attention_cases.h"

namespace foldgrad::testing {
namespace {

class AttentionKernels : public ::testing::TestWithParam<int> {};

// Returns the numbers of matrix instructions and bank conflicts of one forward and one backward pass.
emulation::Counts counts_of(const Sizes& s, DType dtype) {
  const Rows rows(s, Lengths::equal);
  const auto f = [&](const std::vector<Var>& v) { return attend(v, with(s.heads), rows); };
  const OpCase op{.label = "counted", .operands = random_operands(rows, s), .f = f};
  const emulation::Counts before = emulation::counts();
  run_case(op, dtype, Device::cuda);
  emulation::Counts counts = emulation::counts();
  counts.products -= before.products;
  counts.bank_conflicts -= before.bank_conflicts;
  return counts;
}

// One instruction multiplies 16 x 16 by 16 x 8 numbers. The forward pass computes two products, q . k and p v. The
// backward pass computes five: q . k and dy . v again, then dv, dk and dq.
TEST_P(AttentionKernels, MultiplyWithoutDetoursAndBankConflicts) {
  const std::int64_t width = GetParam(), one_product = 2 * (32 / 8) * (width / 16);  // for 32 x 32 x width
  const emulation::Counts all = counts_of({1, 32, 32, 1, width}, DType::bf16);
  EXPECT_EQ(all.products, (2 + 5) * one_product);
  EXPECT_EQ(all.bank_conflicts, 0);
  // Heads with more than 128 queries or keys use separate backward kernels, one for dq and one for dk and dv. For 130
  // queries and 100 keys, each kernel needs several blocks, and the keys need two tiles of 64.
  EXPECT_EQ(counts_of({1, 130, 100, 1, width}, DType::bf16).bank_conflicts, 0);
}

// The rows of a head are not adjacent in memory, but each row consists of whole sectors of 32 bytes, so the kernels may
// access at most 5 % more sectors than necessary. The lower bound on the bytes, the size of y and the three gradients,
// shows that accesses are counted.
TEST_P(AttentionKernels, TouchNoMoreOfMemoryThanTheyTake) {
  const std::int64_t width = GetParam();
  for (const std::int64_t keys : {37, 129}) {
    const emulation::CountAccesses accesses;
    counts_of({1, 45, keys, 3, width}, DType::bf16);
    const emulation::GlobalAccesses got = accesses.result();
    EXPECT_GT(got.bytes, 2 * (2 * 45 + 2 * keys) * 3 * width);
    EXPECT_LE(double(got.sectors), 1.05 * double(got.least));
  }
}

// A block of a plain kernel handles 32 queries or keys; a block on tensor cores handles 16 per warp. The forward pass
// launches blocks for queries. The backward pass launches blocks for queries and blocks for keys: plain kernels in one
// launch, tensor cores in two.
TEST(AttentionKernelsOf, BlocksAreOfTilesNotOfPositions) {
  const std::int64_t heads = 3, queries = 200, keys = 330;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const emulation::RecordLaunches launches;
    counts_of({2, queries, keys, heads, 32}, dtype);
    int seen = 0;
    for (const emulation::Launch& launch : launches.all()) {
      if (!launch.kernel.starts_with("attention")) continue;
      const std::int64_t rows = dtype == DType::bf16 ? launch.threads.x / 2 : 32;
      const std::int64_t blocks = std::int64_t(launch.blocks.x) * launch.blocks.y * launch.blocks.z;
      const bool of_keys = launch.kernel.find("of k and v") != std::string::npos;
      const bool of_both = dtype == DType::f32 && launch.kernel == "attention backward";
      const std::int64_t positions = of_both ? queries + keys + rows : of_keys ? keys : queries;
      EXPECT_LT(blocks * rows, 2 * heads * (positions + rows)) << launch.kernel << " of " << name(dtype);
      ++seen;
    }
    EXPECT_EQ(seen, dtype == DType::bf16 ? 3 : 2);
  }
}

TEST(AttentionKernelsOf, TensorCoresAreForBf16AndTheirWidths) {
  for (const std::int64_t width : {16, 32, 48, 64, 96, 128})
    for (const DType dtype : {DType::bf16, DType::f32, DType::f64}) {
      const bool expected = dtype == DType::bf16 && (width == 32 || width == 64 || width == 128);
      EXPECT_EQ(counts_of({1, 5, 5, 1, width}, dtype).products > 0, expected) << width << ", " << name(dtype);
    }
}

INSTANTIATE_TEST_SUITE_P(Width, AttentionKernels, ::testing::Values(32, 64, 128),
                         [](const auto& info) { return std::to_string(info.param); });

}  // namespace
}  // namespace foldgrad::testing
#endif
