#include "ops/embedding/embedding.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/harness/op_spec.h"
#include "tests/harness/properties.h"
#ifdef FOLDGRAD_EMULATE
#include "emulation/cuda_emulation.h"
#endif

namespace foldgrad::testing {
namespace {

OpCase embedding_case(std::int64_t rows, std::int64_t columns, Shape ids, double scale = 1, std::int64_t padding = -1,
                      bool large = false) {
  return {.label = fmt::format("{} rows of {}, ids {}, scale {}, padding {}", rows, columns, ids, scale, padding),
          .operands = {randn({rows, columns}, 1), random_ids(ids, rows, 2)},
          .f = [=](const std::vector<Var>& v) { return embedding(v[0], v[1], scale, padding); },
          .large = large};
}

OpCase gather_case(Shape x, Shape ids) {
  return {.label = fmt::format("{} of {}", ids, x),
          .operands = {randn(x, 1), random_ids(ids, x[0], 2)},
          .f = [](const std::vector<Var>& v) { return gather(v[0], v[1]); }};
}

Var table(Tape& t, Shape shape) { return t.constant(Tensor::zeros(std::move(shape), DType::f32)); }
Var ids(Tape& t, const std::vector<std::int64_t>& values) {
  return t.constant(Tensor::of({std::int64_t(values.size())}, values));
}

// Around the blocks: 64 columns on the CPU; 16 positions, 128 columns and 256 rows on CUDA; rows with many positions.
const RegisterOp kEmbedding({
    .name = "embedding",
    .cases = {embedding_case(5, 3, {2, 4}, 1.5), embedding_case(1, 1, {3}), embedding_case(7, 2, {1}),
              embedding_case(3, 2, {0}), embedding_case(3, 0, {2}), embedding_case(3, 129, {150}, 0.5, -1, true),
              embedding_case(520, 65, {5}, 3, -1, true), embedding_case(255, 8, {16}, 1, -1, true),
              embedding_case(256, 12, {17}, 1, -1, true),
              // Not for differences: the row of the padding has none of the gradient that they would find.
              embedding_case(4, 2, {9}, 2, 1, true)},
    .errors = {{"embedding: ids must be in [0, 4), got 4 at position 1 of [3]",
                [](Tape& t) {
                  embedding(table(t, {4, 2}), ids(t, {3, 4, 0}));
                }},
               {"embedding: ids must be in [0, 4), got -1 at position 0 of [1]",
                [](Tape& t) {
                  embedding(table(t, {4, 2}), ids(t, {-1}));
                }},
               {"embedding: ids must be i64 [3] on cpu, to go with the table, which is f32 [4, 2] on cpu, got f32 [3] "
                "on cpu",
                [](Tape& t) {
                  embedding(table(t, {4, 2}), table(t, {3}));
                }},
               {"embedding: table must be f32, f64 or bf16 with at least 2 axes, got f32 [4] on cpu",
                [](Tape& t) { embedding(table(t, {4}), ids(t, {0})); }},
               {"embedding: table must be [V, C], got [4, 2, 2]",
                [](Tape& t) {
                  embedding(table(t, {4, 2, 2}), ids(t, {0}));
                }},
               {"embedding: padding_id must be a row of the table [4, 2] or -1, got 4",
                [](Tape& t) {
                  embedding(table(t, {4, 2}), ids(t, {0}), 1, 4);
                }}},
    // Up to 60 positions share a row.
    .f32_roundoffs = 400,
});

const RegisterOp kGather({
    .name = "gather",
    .cases = {gather_case({4, 3}, {6}), gather_case({3, 2, 2}, {4}), gather_case({5}, {2, 3}),
              gather_case({1, 2}, {0})},
    .errors = {{"gather: ids must be in [0, 2), got 2 at position 0 of [1]",
                [](Tape& t) {
                  gather(table(t, {2, 2}), ids(t, {2}));
                }},
               {"gather: x must be f32, f64 or bf16 with at least 1 axes, got f32 [] on cpu",
                [](Tape& t) { gather(table(t, {}), ids(t, {2})); }}},
});

TEST(Embedding, EMB_1_EMB_2_WorkedByHand) {
  for (Device device : devices()) {
    Tape tape;
    const Var x = tape.variable(Tensor::of<double>({3, 2}, {1, 2, 3, 4, 5, 6}, device));
    const Var i = tape.constant(Tensor::of<std::int64_t>({4}, {2, 0, 2, 1}, device));
    const Var y = embedding(x, i, /*scale=*/10, /*padding_id=*/1);
    EXPECT_EQ(y.value().values<double>(), (std::vector<double>{50, 60, 10, 20, 50, 60, 30, 40}));
    tape.backward(y, Tensor::of<double>({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}, device));
    EXPECT_EQ(tape.grad(x).values<double>(), (std::vector<double>{30, 40, 0, 0, 60, 80}));
  }
}

// 1e8 + 1 is 1e8 in f32, so the sum tells in which order its terms came: (1e8 - 1e8) + 1, not (1e8 + 1) - 1e8. The
// harness's own test of thread orders cannot tell: its dy are so short numbers that f32 adds them exactly.
TEST(Embedding, EMB_2_SumsInTheOrderOfPositions) {
#ifdef FOLDGRAD_EMULATE
  const emulation::OrderScope scope(emulation::Order::descending);
#endif
  for (Device device : devices()) {
    Tape tape;
    const Var x = tape.variable(Tensor::zeros({2, 1}, DType::f32, device));
    const Var i = tape.constant(Tensor::of<std::int64_t>({4}, {1, 0, 1, 1}, device));
    tape.backward(embedding(x, i), Tensor::of<float>({4, 1}, {1e8f, 7, -1e8f, 1}, device));
    EXPECT_EQ(tape.grad(x).values<float>(), (std::vector<float>{7, 1}));
  }
}

TEST(Embedding, EMB_1_AnUnknownIdGivesNaNOnCuda) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  Tape tape;
  const Var x = tape.variable(Tensor::of<double>({2, 1}, {3, 4}, Device::cuda));
  const Var y = embedding(x, tape.constant(Tensor::of<std::int64_t>({3}, {1, 2, -1}, Device::cuda)));
  const std::vector<double> got = y.value().values<double>();
  EXPECT_EQ(got[0], 4);
  EXPECT_TRUE(std::isnan(got[1]) && std::isnan(got[2]));
  tape.backward(y, Tensor::of<double>({3, 1}, {1, 2, 3}, Device::cuda));
  EXPECT_EQ(tape.grad(x).values<double>(), (std::vector<double>{0, 1}));
}

// Choosing rows is multiplying by a matrix of zeros and ones, so the gradient is its transpose times dy. dy are whole
// numbers, so that every order of summation gives the same.
RC_GTEST_PROP(Embedding, EMB_2_IsTheTransposeOfTheChoice, ()) {
  const int rows = *rc::gen::inRange(1, 9), columns = *rc::gen::inRange(1, 5), positions = *rc::gen::inRange(0, 200);
  const auto chosen =
      *rc::gen::container<std::vector<std::int64_t>>(positions, rc::gen::inRange<std::int64_t>(0, rows));
  const auto whole = *rc::gen::container<std::vector<int>>(positions * columns, rc::gen::inRange(-99, 100));
  const Tensor dy = Tensor::of({positions, columns}, std::vector<double>(whole.begin(), whole.end()));
  std::vector<double> want(rows * columns);
  for (int m = 0; m < positions; ++m)
    for (int c = 0; c < columns; ++c) want[chosen[m] * columns + c] += whole[m * columns + c];
  for (Device device : devices()) {
    Tape tape;
    const Var x = tape.variable(Tensor::zeros({rows, columns}, DType::f64, device));
    tape.backward(embedding(x, tape.constant(Tensor::of({positions}, chosen, device))), dy.to(device));
    RC_ASSERT(tape.grad(x).values<double>() == want);
  }
}

}  // namespace
}  // namespace foldgrad::testing
