#include "tests/harness/by_hand.h"
#include "tests/ops/attention_cases.h"

namespace foldgrad::testing {
namespace {

OpCase attention_case(const Sizes& s, const AttentionOptions& options, Lengths lengths) {
  const Rows rows(s, lengths);
  return {.label = label_of(s, options, lengths),
          .operands = random_operands(rows, s),
          .f = [=](const std::vector<Var>& v) { return attend(v, options, rows); }};
}

OpCase packed_case(const Sizes& s, const AttentionOptions& options, Lengths lengths) {
  const Segments rows = Rows(s, lengths).keys;
  return random_case({{rows.rows(), 3 * s.heads * s.width}}, label_of(s, options, lengths),
                     [=](auto& v) { return attention_packed(v[0], options, rows.to(v[0].device())); });
}

// Makes a case with one bias per group. Segment s is in group s mod `groups`.
OpCase biased_case(std::int64_t segments, std::int64_t groups, std::int64_t rows, int heads, std::int64_t width,
                   double dropout = 0) {
  return random_case({{segments * rows, 3 * heads * width}, {groups, heads, rows, rows}},
                     fmt::format("{} segments of {} rows in {} groups, {} heads of {}{}", segments, rows, groups, heads,
                                 width, dropout > 0 ? ", dropout" : ""),
                     [=](auto& v) {
                       const Segments all = Segments::equal(segments, rows).to(v[0].device());
                       return attention_packed(v[0], v[1], with(heads, false, dropout), all);
                     });
}
OpError bias_error(const char* message, Shape bias, const AttentionOptions& options, const Segments& rows) {
  return error_of_zeros(message, {{rows.rows(), 12}, bias},
                        [=](auto& v) { return attention_packed(v[0], v[1], options, rows); });
}

constexpr Lengths kEqual = Lengths::equal, kRagged = Lengths::ragged;

// Makes an error case with one segment of queries, all rows of q, and one segment of keys, all rows of k.
OpError attention_error(const char* message, Shape q, Shape k, Shape v, AttentionOptions options,
                        DType dtype = DType::f32) {
  return error_of_zeros(
      message, {q, k, v},
      [=](auto& x) { return attention(x[0], x[1], x[2], options, Segments({q[0]}), Segments({k[0]})); }, dtype);
}

// Makes an error case of self-attention over x [2, 4].
OpError segments_error(const char* message, const Segments& queries, const Segments& keys) {
  return error_of_zeros(message, {{2, 4}},
                        [=](auto& x) { return attention(x[0], x[0], x[0], with(1), queries, keys); });
}
OpError packed_error(const char* message, Shape qkv, int heads, std::int64_t rows) {
  return {message, [=](Tape& t) { attention_packed(zeros(t, qkv), with(heads), Segments({rows})); }};
}

// Many of the larger sizes are close to multiples of a CUDA tile: 32 queries, 32 keys and 32 columns. The test
// EqualsTheFormulasAroundBlocks has sizes close to the CPU's blocks, which have at most 80 queries and 80 keys.
const RegisterOp kAttention({
    .name = "attention",
    .cases = {attention_case({1, 1, 1, 1, 1}, with(1), kEqual), attention_case({2, 3, 2, 2, 3}, with(2), kRagged),
              attention_case({2, 3, 3, 1, 2}, with(1, true), kEqual),
              attention_case({3, 3, 5, 1, 2}, with(1, true), kRagged),
              attention_case({1, 2, 5, 2, 3}, with(2, true), kEqual),
              // The first two queries see no key.
              attention_case({1, 5, 3, 2, 2}, with(2, true), kEqual),
              attention_case({3, 4, 5, 2, 2}, with(2, false, 0.4), kRagged),
              attention_case({1, 4, 4, 3, 2}, with(3, true, 0.25), kEqual),
              attention_case({1, 2, 3, 1, 4}, {.heads = 1, .scale = 2}, kEqual),
              attention_case({0, 2, 3, 1, 4}, with(1), kEqual), attention_case({1, 0, 3, 1, 2}, with(1), kEqual),
              attention_case({1, 2, 0, 1, 2}, with(1), kEqual),
              attention_case({3, 33, 65, 1, 33}, with(1, true, 0.5), kRagged),
              attention_case({1, 33, 31, 1, 33}, with(1, true, 0.5), kEqual),
              attention_case({1, 31, 65, 1, 5}, with(1), kEqual),
              attention_case({1, 65, 32, 1, 5}, with(1, true), kEqual),
              attention_case({3, 100, 70, 2, 20}, with(2, true, 0.1), kRagged),
              attention_case({2, 3, 2, 1, 128}, with(1), kEqual)},
    .errors = {attention_error("attention: q must have 2 axes (row, column), got f32 [1, 2, 4] on cpu", {1, 2, 4},
                               {1, 2, 4}, {1, 2, 4}, with(1)),
               attention_error("attention: q must be f32, f64 or bf16 of rank 2 or more, got i64 [2, 4] on cpu", {2, 4},
                               {2, 4}, {2, 4}, with(1), DType::i64),
               attention_error("attention: k must be f32 [5, 4] on cpu (q is f32 [3, 4] on cpu), got f32 [5, 3] on cpu",
                               {3, 4}, {5, 3}, {5, 3}, with(1)),
               attention_error("attention: v must be f32 [5, 4] on cpu (k is f32 [5, 4] on cpu), got f32 [6, 4] on cpu",
                               {3, 4}, {5, 4}, {6, 4}, with(1)),
               attention_error("attention: heads must be positive and divide the 4 columns of a row, got 3", {2, 4},
                               {2, 4}, {2, 4}, with(3)),
               attention_error("attention: heads must be positive and divide the 4 columns of a row, got 0", {2, 4},
                               {2, 4}, {2, 4}, with(0)),
               attention_error("attention: a head must have at most 128 columns, got 2 heads of 129", {2, 258},
                               {2, 258}, {2, 258}, with(2)),
               attention_error("attention: scale must be positive, or 0, which means 1 / sqrt(head width), got -1",
                               {2, 4}, {2, 4}, {2, 4}, {.scale = -1}),
               attention_error("attention: dropout must be in [0, 1), got 1", {2, 4}, {2, 4}, {2, 4}, {.dropout = 1}),
               segments_error("attention: the segments must match the rows of k (f32 [2, 4] on cpu), got 3 rows on cpu",
                              Segments({2}), Segments({3})),
               segments_error("attention: the number of key segments must equal the number of query segments, 1, got 2",
                              Segments({2}), Segments({1, 1}))},
    .parity_tolerance = 1e-11,  // each device sums the 128 products of a score in its own order, before exp
    .f32_roundoffs = 1000,      // sums of up to 128 products, whose factors are also sums
    // In bf16, the results are rounded, and delta is computed from the rounded y. Gradients are sums of several terms
    // with such errors.
    .bf16_roundoffs = 16,
});

const RegisterOp kAttentionPacked({
    .name = "attention_packed",
    .cases = {packed_case({2, 3, 3, 2, 2}, with(2, true, 0.3), kEqual), packed_case({1, 1, 1, 1, 1}, with(1), kEqual),
              packed_case({3, 5, 5, 2, 2}, with(2, true), kRagged), packed_case({2, 4, 4, 1, 3}, with(1), kEqual),
              packed_case({1, 33, 33, 2, 16}, with(2, true), kEqual), biased_case(4, 2, 3, 2, 2),
              biased_case(3, 1, 4, 2, 3, 0.3), biased_case(0, 1, 2, 1, 2), biased_case(6, 3, 49, 2, 8),
              biased_case(2, 1, 81, 1, 4)},
    .errors =
        {packed_error("attention_packed: qkv must have 2 axes (row, column), got f32 [1, 2, 6] on cpu", {1, 2, 6}, 1,
                      2),
         packed_error("attention_packed: qkv must have 3 equal groups of columns, got 4 columns", {2, 4}, 1, 2),
         packed_error("attention_packed: heads must be positive and divide the 2 columns of a row, got 4", {2, 6}, 4,
                      2),
         packed_error(
             "attention_packed: the segments must match the rows of qkv (f32 [2, 6] on cpu), got 1 rows on cpu", {2, 6},
             1, 1),
         bias_error("attention_packed: bias must be f32 [2, 2, 3, 3] on cpu (qkv is f32 [6, 12] on cpu), got f32 [2, "
                    "1, 3, 3] on cpu",
                    {2, 1, 3, 3}, with(2), Segments({3, 3})),
         bias_error("attention_packed: with a bias, all segments must have the same length and no padding",
                    {1, 2, 3, 3}, with(2), Segments({3, 2})),
         bias_error("attention_packed: with a bias, causal must be off", {1, 2, 3, 3}, with(2, true), Segments({3})),
         bias_error("attention_packed: the size of the bias's first axis must divide the number of segments, 3, got 2",
                    {2, 2, 3, 3}, with(2), Segments({3, 3, 3}))},
    .f32_roundoffs = 1000,
    .bf16_roundoffs = 16,
});

}  // namespace
}  // namespace foldgrad::testing
