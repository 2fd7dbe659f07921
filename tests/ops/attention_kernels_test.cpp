// Which kernels of attention run, how much they compute, and that both kinds agree.
#if defined(FOLDGRAD_HAVE_CUDA) && defined(FOLDGRAD_FAST)
#include "ops/attention/attention_kernels.h"

#include <cmath>

#include "tests/harness/op_spec.h"
#include "tests/ops/attention_cases.h"
#ifdef FOLDGRAD_EMULATE
#include "emulation/cuda_emulation.h"
#include "emulation/global_memory.h"
#endif

namespace foldgrad::testing {
namespace {

class AttentionKernels : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  }
};

// y and L of the kernels without tensor cores and of those with them, on the same operands.
TEST_P(AttentionKernels, ATT_2_ATT_3_AgreeWithThePlainKernels) {
  const Sizes s{3, 70, 90, 2, GetParam()};
  const Rows rows = Rows(s, Lengths::ragged).on(Device::cuda);
  std::vector<Tensor> in;
  for (const Tensor& t : random_operands(rows, s)) in.push_back(t.to(DType::bf16).to(Device::cuda));
  const std::int64_t columns = 2 * s.width, queries = rows.queries.rows();
  Tensor y[2], L[2];
  for (const bool plain : {false, true}) {
    y[plain] = Tensor::empty({queries, columns}, DType::bf16, Device::cuda);
    L[plain] = Tensor::empty({2, queries}, DType::f32, Device::cuda);
    const AttentionForward<bf16> p{.y = y[plain].data<bf16>(),
                                   .L = L[plain].data<float>(),
                                   .q = in[0].data<bf16>(),
                                   .k = in[1].data<bf16>(),
                                   .v = in[2].data<bf16>(),
                                   .shape = {.segments = 3,
                                             .heads = 2,
                                             .width = s.width,
                                             .q_offsets = rows.queries.offsets().data<std::int64_t>(),
                                             .k_offsets = rows.keys.offsets().data<std::int64_t>(),
                                             .k_lengths = rows.keys.lengths().data<std::int64_t>(),
                                             .rows = queries,
                                             .longest_queries = rows.queries.longest(),
                                             .longest_keys = rows.keys.longest(),
                                             .products = 0,
                                             .q_row = columns,
                                             .k_row = columns,
                                             .scale = 1 / std::sqrt(double(s.width)),
                                             .causal = true,
                                             .drop_below = 0,
                                             .keep_factor = 1,
                                             .random = {}}};
    if (plain)
      attention_cuda(p);
    else
      ASSERT_TRUE(attention_by_tensor_cores(p));
  }
  // L: sums in float of exponentials that are 2^-22 of them off; infinite where there are no keys. y: p in bf16, and
  // two roundings, for |v| below 3.
  EXPECT_TRUE(close(L[0], L[1].to(Device::cpu).to(DType::f64), 1e-5));
  EXPECT_TRUE(close(y[0], y[1].to(Device::cpu).to(DType::f64), 5 * std::ldexp(1, -8)));
}

#ifdef FOLDGRAD_EMULATE
// Counts what forward and backward launch.
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

// Queries and keys of 2 fragments each, one head. Forward: q . k and p v. Backward: q . k and dy . v, then dv, dk and
// dq.
TEST_P(AttentionKernels, MultiplyWithoutDetoursAndBankConflicts) {
  const std::int64_t width = GetParam(), one_product = 2 * (32 / 8) * (width / 16);  // of 32 x 32 x width
  const emulation::Counts all = counts_of({1, 32, 32, 1, width}, DType::bf16);
  EXPECT_EQ(all.products, (2 + 5) * one_product);
  EXPECT_EQ(all.bank_conflicts, 0);
  // Two tiles of keys and more than one block of each kind, and both of the kernels for more than 128.
  EXPECT_EQ(counts_of({1, 130, 100, 1, width}, DType::bf16).bank_conflicts, 0);
}

// Rows of a head lie apart, but each is whole sectors of 32 bytes. More is read and written than y and the gradients.
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

TEST(AttentionKernelsOf, TensorCoresAreForBf16AndTheirWidths) {
  for (const std::int64_t width : {16, 32, 48, 64, 96, 128})
    for (const DType dtype : {DType::bf16, DType::f32, DType::f64}) {
      const bool expected = dtype == DType::bf16 && (width == 32 || width == 64 || width == 128);
      EXPECT_EQ(counts_of({1, 5, 5, 1, width}, dtype).products > 0, expected) << width << ", " << name(dtype);
    }
}
#endif

INSTANTIATE_TEST_SUITE_P(Width, AttentionKernels, ::testing::Values(32, 64, 128),
                         [](const auto& info) { return std::to_string(info.param); });

}  // namespace
}  // namespace foldgrad::testing
#endif
