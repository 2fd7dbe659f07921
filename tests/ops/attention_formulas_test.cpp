// Compares attention with its formulas, and tests properties that must hold for any division into blocks.
#include <rapidcheck.h>

#include "emulation/sanitizers.h"
#include "engine/memory.h"
#include "ops/concat/concat.h"
#include "tests/harness/by_hand.h"
#include "tests/ops/attention_cases.h"

namespace foldgrad::testing {
namespace {

// Runs f forward and backward, with dy = cotangent(). Returns y and the gradients of q, k and v.
std::vector<Tensor> results(const std::vector<Tensor>& in, DType dtype, Device device, const OpFunction& f) {
  const OpResult all = results_of(f, in, cotangent(in[0].shape()), dtype, device);
  return {all.y, all.grads[0], all.grads[1], all.grads[2]};
}
std::vector<Tensor> run(const std::vector<Tensor>& in, const AttentionOptions& options, const Rows& rows, DType dtype,
                        Device device = Device::cpu) {
  return results(in, dtype, device, [&](auto& v) { return attend(v, options, rows); });
}

// The scores are 2 q . k = (ln 3, 0), so p = (3/4, 1/4) and y = 7. With dy = 1, delta = 7 and
// ds = (3/4 * 1, 1/4 * (-3)).
TEST(Attention, ATT_1_ATT_2_ATT_3_ATT_4_ATT_5_ATT_6_WorkedByHand) {
  const double ln3 = std::log(3.0);
  expect_by_hand({.operands = {numbers({1, 1}, {ln3 / 2}), numbers({2, 1}, {1, 0}), numbers({2, 1}, {8, 4})},
                  .y = {7},
                  .dy = {1},
                  .gradients = {{1.5}, {0.75 * ln3, -0.75 * ln3}, {0.75, 0.25}},
                  .tolerance = 1e-14},
                 [](auto& v) {
                   const Device device = v[0].device();
                   return attention(v[0], v[1], v[2], {.scale = 2}, Segments({1}).to(device), Segments({2}).to(device));
                 });
}

// Both segments use the same bias, and q = 0, so p = (3/4, 1/4) comes only from the bias. As above, y = 7. In the first
// segment, dy = 1 and ds = (3/4, -3/4). In the second segment, dy = 2, so ds is twice as large.
TEST(Attention, ATT_1_ATT_9_WorkedByHand) {
  const double ln3 = std::log(3.0);
  expect_by_hand(
      {.operands = {numbers({4, 3}, {0, 1, 8, 0, 1, 4, 0, 1, 8, 0, 1, 4}), numbers({1, 1, 2, 2}, {ln3, 0, ln3 + 5, 5})},
       .y = {7, 7, 7, 7},
       .dy = {1, 0, 2, 0},
       .gradients = {{0, 0, 0.75, 0, 0, 0.25, 0, 0, 1.5, 0, 0, 0.5}, {2.25, -2.25, 0, 0}},
       .tolerance = 1e-14},
      [](auto& v) {
        return attention_packed(v[0], v[1], {.scale = 2}, Segments({2, 2}).to(v[0].device()));
      });
}

// Evaluates the formulas for one head of one segment, without blocks, and adds the results to `out`. The gradient of
// the softmax has its textbook form: ds_ij = p_ij (dp_ij - sum_t p_it dp_it).
void formulas_of_head(const std::vector<Tensor>& in, const AttentionOptions& options, const Rows& rows, std::int64_t s,
                      std::int64_t h, std::vector<Tensor>& out) {
  const std::int64_t D = in[0].shape()[1] / options.heads, row = in[0].shape()[1];
  const double scale = options.scale > 0 ? options.scale : 1 / std::sqrt(double(D));
  const Tensor dy = cotangent(in[0].shape());
  // Returns a pointer to this head's first element in the segment. Its rows are H D elements apart.
  const auto head = [&](const Tensor& t, const Segments& of) { return t.data<double>() + of.offset(s) * row + h * D; };
  const double *q = head(in[0], rows.queries), *k = head(in[1], rows.keys), *v = head(in[2], rows.keys),
               *g = head(dy, rows.queries);
  double *y = head(out[0], rows.queries), *dq = head(out[1], rows.queries), *dk = head(out[2], rows.keys),
         *dv = head(out[3], rows.keys);
  for (std::int64_t i = 0; i < rows.queries.length(s); ++i) {
    const Probabilities of_query(in, options, rows, s, h, i);
    const std::vector<double>&p = of_query.p, &z = of_query.z;
    std::vector<double> dp(p.size());
    double mean = 0;
    for (std::size_t j = 0; j < p.size(); ++j) {
      for (std::int64_t c = 0; c < D; ++c) dp[j] += z[j] * g[i * row + c] * v[std::int64_t(j) * row + c];
      mean += p[j] * dp[j];
    }
    for (std::int64_t j = 0; j < std::int64_t(p.size()); ++j)
      for (std::int64_t c = 0; c < D; ++c) {
        const double ds = p[j] * (dp[j] - mean);
        y[i * row + c] += z[j] * p[j] * v[j * row + c];
        dq[i * row + c] += scale * ds * k[j * row + c];
        dk[j * row + c] += scale * ds * q[i * row + c];
        dv[j * row + c] += z[j] * p[j] * g[i * row + c];
      }
  }
}

void expect_formulas(const Sizes& s, const AttentionOptions& options, Lengths lengths) {
  const Rows rows(s, lengths);
  const std::vector<Tensor> in = random_operands(rows, s);
  std::vector<Tensor> want;
  for (int k : {0, 0, 1, 2}) want.push_back(Tensor::zeros(in[k].shape(), DType::f64));
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t h = 0; h < s.heads; ++h) formulas_of_head(in, options, rows, b, h, want);
  // Sums have up to 200 terms. Their rounding errors partly cancel, which matters for the tolerance in f32.
  for (const auto& [dtype, tolerance] : {std::pair(DType::f64, 1e-11), std::pair(DType::f32, 5e-5)}) {
    const std::vector<Tensor> got = run(in, options, rows, dtype);
    for (std::size_t k = 0; k < want.size(); ++k)
      EXPECT_TRUE(close(got[k], want[k], tolerance))
          << label_of(s, options, lengths) << ", " << name(dtype) << ", result " << k;
  }
}

// The CPU's blocks have at most 80 positions, so the number of blocks changes just above lengths of 80 and 160. Lengths
// of 64 and head widths of 16 fill whole SIMD vectors; 65 and 33 do not.
TEST(Attention, ATT_1_ATT_2_ATT_3_ATT_4_ATT_5_ATT_6_EqualsTheFormulasAroundBlocks) {
  const std::pair<std::int64_t, std::int64_t> lengths[] = {
      {64, 65}, {65, 64}, {79, 80}, {80, 80}, {81, 80}, {80, 81}, {161, 160}, {1, 200}, {200, 1}, {70, 130}, {130, 70}};
  for (const auto& [queries, keys] : lengths)
    for (std::int64_t width : {16, 33})
      for (bool causal : {false, true})
        expect_formulas({1, queries, keys, 2, width}, with(2, causal, causal ? 0 : 0.3), Lengths::equal);
  // The last segment has no keys, so its results must be 0 even if their memory held other values before.
  expect_formulas({3, 90, 90, 2, 16}, with(2), Lengths::ragged);
}

TEST(Attention, ATT_1_ATT_2_ATT_3_ATT_4_ATT_5_ATT_6_ATT_8_EqualsTheFormulas) {
  EXPECT_TRUE(rc::check([] {
    const Sizes s{*rc::gen::inRange(1, 4), *rc::gen::inRange(1, 40), *rc::gen::inRange(1, 100), *rc::gen::inRange(1, 3),
                  *rc::gen::inRange(1, 20)};
    AttentionOptions options = with(s.heads, *rc::gen::arbitrary<bool>(), *rc::gen::element(0.0, 0.5));
    options.scale = *rc::gen::element(0.0, 0.3);
    expect_formulas(s, options, *rc::gen::element(Lengths::equal, Lengths::ragged));
    RC_ASSERT(!::testing::Test::HasFailure());
  }));
}

// The other segments of a batch must not change any bit of a segment's results, on either device.
TEST(Attention, ATT_3_ATT_6_OtherSegmentsChangeNothing) {
  const Sizes s{3, 40, 90, 2, 32};
  const Rows rows(s, Lengths::ragged);
  const std::vector<Tensor> in = random_operands(rows, s);
  for (Device device : devices())
    for (DType dtype : {DType::f64, DType::bf16}) {
      const std::vector<Tensor> all = run(in, with(2, true), rows, dtype, device);
      for (std::int64_t b = 0; b < s.batch; ++b) {
        const auto part = [&](const Tensor& t, const Segments& of) { return t.slice(of.offset(b), of.offset(b + 1)); };
        Rows alone = rows;
        alone.queries = Segments({rows.queries.length(b)});
        alone.keys = Segments({rows.keys.length(b)});
        const OpResult own = results_of([&](auto& v) { return attend(v, with(2, true), alone); },
                                        {part(in[0], rows.queries), part(in[1], rows.keys), part(in[2], rows.keys)},
                                        part(cotangent(in[0].shape()), rows.queries), dtype, device);
        EXPECT_TRUE(identical(own.y, part(all[0], rows.queries))) << b << " on " << name(device);
        for (std::size_t k : {0, 1, 2})
          EXPECT_TRUE(identical(own.grads[k], part(all[k + 1], k ? rows.keys : rows.queries)))
              << b << ", operand " << k << " on " << name(device);
      }
    }
}

// attention_packed() gives the same bits as attention(), even on tensor cores.
TEST(Attention, PackedOperandsGiveTheSame) {
  const Sizes s{2, 9, 9, 2, 32};
  const Rows rows(s, Lengths::equal);
  const std::vector<Tensor> in = random_operands(rows, s);
  for (Device device : devices())
    for (DType dtype : {DType::f64, DType::bf16}) {
      const Rows there = rows.on(device);
      const AttentionOptions options = with(2, /*causal=*/true, 0.3);
      const auto want = run(in, options, rows, dtype, device);
      const auto all = results(in, dtype, device, [&](auto& v) {
        return attention_packed(concat({v[0], v[1], v[2]}, 1), options, there.keys);
      });
      for (std::size_t i = 0; i < want.size(); ++i)
        EXPECT_TRUE(identical(all[i], want[i])) << i << " on " << name(device) << ", " << name(dtype);
    }
}

TEST(Attention, ATT_6_KeysOfOtherSegmentsMayHoldAnything) {
  const Sizes s{1, 3, 3, 1, 32};
  Rows rows(s, Lengths::equal);
  rows.queries = Segments({3, 0});
  rows.keys = Segments({2, 1});
  for (const Device device : devices())
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      const auto with_last_key = [&](double value) {
        const std::vector<Tensor> in = random_operands(rows, s);
        in[1].slice(2, 3).copy_from(Tensor::full({1, 32}, value, DType::f64));
        return run(in, with(1), rows, dtype, device);
      };
      const std::vector<Tensor> want = with_last_key(0), got = with_last_key(NAN);
      for (std::size_t k = 0; k < want.size(); ++k)
        EXPECT_TRUE(close(got[k], want[k], 0)) << k << " on " << name(device) << ", " << name(dtype);
    }
}

// When the length doubles, the memory must double. With a matrix of all scores, the memory would quadruple.
TEST(Attention, MemoryGrowsWithTheLengthNotItsSquare) {
  const auto peak = [](Device device, std::int64_t T) {
    const Tensor x = Tensor::zeros({T, 4}, DType::f32, device);
    const Segments rows = Segments({T}).to(device);
    const std::size_t before = memory::statistics(device).current;
    memory::reset_peak(device);
    Tape tape;
    const Var v = tape.variable(x);
    const Var y = attention(v, v, v, with(1, true), rows, rows);
    tape.backward(y, x);
    return double(memory::statistics(device).peak - before);
  };
  // The factor is 2.5 instead of 2, since the allocator rounds sizes up by at most a quarter. The CPU's memory for
  // blocks does not depend on the length. Under ThreadSanitizer, the emulation would take minutes for T = 1024.
  for (const Device device : devices()) {
    const std::int64_t T = device == Device::cuda && emulation::kThreadSanitizer ? 256 : 1024;
    EXPECT_LT(peak(device, 2 * T), 2.5 * peak(device, T)) << name(device);
  }
}

}  // namespace
}  // namespace foldgrad::testing
