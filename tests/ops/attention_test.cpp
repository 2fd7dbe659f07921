#include "tests/harness/op_spec.h"
#include "tests/ops/attention_cases.h"

namespace foldgrad::testing {
namespace {

OpCase attention_case(const Sizes& s, const AttentionOptions& options, bool masked, bool large = false) {
  OpCase c{.label = fmt::format("{} x {} queries, {} keys, {} heads of {}{}{}{}", s.batch, s.queries, s.keys, s.heads,
                                s.width, options.causal ? ", causal" : "", options.dropout > 0 ? ", dropout" : "",
                                masked ? ", masked" : ""),
           .operands = random_operands(s),
           .f = [=](const std::vector<Var>& v) { return attention(v[0], v[1], v[2], options, masked ? v[3] : Var()); },
           .large = large};
  if (masked) c.operands.push_back(random_mask(s.batch, s.keys, 4));
  return c;
}

OpCase packed_case(const Sizes& s, const AttentionOptions& options, bool masked, bool large = false) {
  OpCase c{.label = fmt::format("{} x {} positions, {} heads of {}", s.batch, s.keys, s.heads, s.width),
           .operands = {randn({s.batch, s.keys, 3 * s.heads * s.width}, 1)},
           .f = [=](const std::vector<Var>& v) { return attention_packed(v[0], options, masked ? v[1] : Var()); },
           .large = large};
  if (masked) c.operands.push_back(random_mask(s.batch, s.keys, 4));
  return c;
}

Var zeros(Tape& t, Shape shape, DType dtype = DType::f32) { return t.constant(Tensor::zeros(shape, dtype)); }

// Around the tiles of CUDA, 32 by 32 and 32 columns. Around the CPU's blocks, up to 80 by 80, see EqualsTheFormulas.
const RegisterOp kAttention({
    .name = "attention",
    .cases = {attention_case({1, 1, 1, 1, 1}, with(1), false), attention_case({2, 3, 2, 2, 3}, with(2), true),
              attention_case({2, 3, 3, 1, 2}, with(1, true), false),
              attention_case({1, 2, 5, 2, 3}, with(2, true), true),
              // the first two queries see no key
              attention_case({1, 5, 3, 2, 2}, with(2, true), false),
              attention_case({2, 3, 5, 2, 2}, with(2, false, 0.4), true),
              attention_case({1, 4, 4, 3, 2}, with(3, true, 0.25), false),
              attention_case({1, 2, 3, 1, 4}, {.heads = 1, .scale = 2}, false),
              attention_case({0, 2, 3, 1, 4}, with(1), false), attention_case({1, 0, 3, 1, 2}, with(1), false),
              attention_case({1, 2, 0, 1, 2}, with(1), false),
              attention_case({1, 33, 31, 1, 33}, with(1, true, 0.5), true, true),
              attention_case({1, 31, 65, 1, 5}, with(1), true, true),
              attention_case({1, 65, 32, 1, 5}, with(1, true), false, true),
              attention_case({2, 3, 2, 1, 128}, with(1), false, true)},
    .errors = {{"attention: q must have 3 axes (batch, position, columns), got f32 [1, 2, 3, 4] on cpu",
                [](Tape& t) {
                  const Var x = zeros(t, {1, 2, 3, 4});
                  attention(x, x, x, with(1));
                }},
               {"attention: q must be f32, f64 or bf16 with at least 3 axes, got i64 [1, 2, 4] on cpu",
                [](Tape& t) {
                  const Var x = zeros(t, {1, 2, 4}, DType::i64);
                  attention(x, x, x, with(1));
                }},
               {"attention: k must be f32 [2, 5, 4] on cpu, to go with q, which is f32 [2, 3, 4] on cpu, got "
                "f32 [1, 5, 4] on cpu",
                [](Tape& t) { attention(zeros(t, {2, 3, 4}), zeros(t, {1, 5, 4}), zeros(t, {1, 5, 4}), with(1)); }},
               {"attention: v must be f32 [2, 5, 4] on cpu, to go with k, which is f32 [2, 5, 4] on cpu, got "
                "f32 [2, 6, 4] on cpu",
                [](Tape& t) { attention(zeros(t, {2, 3, 4}), zeros(t, {2, 5, 4}), zeros(t, {2, 6, 4}), with(1)); }},
               {"attention: heads must be positive and divide the 4 columns of a position, got 3",
                [](Tape& t) { attention(zeros(t, {1, 2, 4}), zeros(t, {1, 2, 4}), zeros(t, {1, 2, 4}), with(3)); }},
               {"attention: heads must be positive and divide the 4 columns of a position, got 0",
                [](Tape& t) { attention(zeros(t, {1, 2, 4}), zeros(t, {1, 2, 4}), zeros(t, {1, 2, 4}), with(0)); }},
               {"attention: a head must have at most 128 columns, got 2 heads of 129",
                [](Tape& t) {
                  const Var x = zeros(t, {1, 2, 258});
                  attention(x, x, x, with(2));
                }},
               {"attention: scale must be positive, or 0 for 1 / sqrt(width of a head), got -1",
                [](Tape& t) {
                  const Var x = zeros(t, {1, 2, 4});
                  attention(x, x, x, {.scale = -1});
                }},
               {"attention: dropout must be in [0, 1), got 1",
                [](Tape& t) {
                  const Var x = zeros(t, {1, 2, 4});
                  attention(x, x, x, {.dropout = 1});
                }},
               {"attention: mask must be u8 [1, 2] on cpu, to go with k, which is f32 [1, 2, 4] on cpu, got "
                "u8 [1, 3] on cpu",
                [](Tape& t) {
                  const Var x = zeros(t, {1, 2, 4});
                  attention(x, x, x, with(1), zeros(t, {1, 3}, DType::u8));
                }}},
    .parity_tolerance = 1e-11,  // scores of 128 products in another order, exponentiated
    .f32_roundoffs = 1000,      // sums of up to 130 products of products
    // y, which delta is made of, is rounded to bf16, and so are results; gradients are sums of several such terms.
    .bf16_roundoffs = 16,
});

const RegisterOp kAttentionPacked({
    .name = "attention_packed",
    .cases = {packed_case({2, 3, 3, 2, 2}, with(2, true, 0.3), true), packed_case({1, 1, 1, 1, 1}, with(1), false),
              packed_case({2, 4, 4, 1, 3}, with(1), false), packed_case({1, 33, 33, 2, 16}, with(2, true), true, true)},
    .errors = {{"attention_packed: qkv must have 3 axes (batch, position, columns), got f32 [1, 2, 3, 6] on cpu",
                [](Tape& t) {
                  attention_packed(zeros(t, {1, 2, 3, 6}), with(1));
                }},
               {"attention_packed: qkv must have 3 equal groups of columns, got 4 columns",
                [](Tape& t) {
                  attention_packed(zeros(t, {1, 2, 4}), with(1));
                }},
               {"attention_packed: heads must be positive and divide the 2 columns of a position, got 4",
                [](Tape& t) {
                  attention_packed(zeros(t, {1, 2, 6}), with(4));
                }},
               {"attention_packed: mask must be u8 [1, 2] on cpu, to go with qkv, which is f32 [1, 2, 6] on cpu, got "
                "f32 [1, 2] on cpu",
                [](Tape& t) {
                  attention_packed(zeros(t, {1, 2, 6}), with(1), zeros(t, {1, 2}));
                }}},
    .f32_roundoffs = 1000,
    .bf16_roundoffs = 16,
});

}  // namespace
}  // namespace foldgrad::testing
