// Scaled dot-product attention with several heads, in one operation that never stores a Tq x Tk matrix.
//
//   for every segment s and head h, where i is a query and j is a key; sums over j include only the keys that i sees:
//   [ATT-1]  s_ij  = scale q_i . k_j + bias_((s mod G) h i j)     without a bias operand the bias is 0
//   [ATT-2]  L_i   = log sum_j exp(s_ij)          p_ij  = exp(s_ij - L_i)
//   [ATT-3]  y_i   = sum_j z_ij p_ij v_j
//
//   backward, with p and z recomputed:
//   [ATT-4]  dv_j  = sum_i z_ij p_ij dy_i
//   [ATT-5]  delta_i = dy_i . y_i                 ds_ij = p_ij (z_ij dy_i . v_j - delta_i)
//   [ATT-6]  dq_i  = scale sum_j ds_ij k_j        dk_j  = scale sum_i ds_ij q_i
//   [ATT-9]  dbias_(g h i j) = sum of ds_ij of head h over the segments s with s mod G = g, in their order
//
//   Segment s has Tq queries and Tk keys: its rows in the two batches (ops/segments/segments.h). Query i sees every key
//   j; if causal, only those with j <= i + (Tk - Tq), so that the last query sees every key. A query that sees no key
//   gets y_i = 0 and a zero gradient. z_ij is 1 / (1 - q) for kept probabilities and 0 for dropped ones. For each
//   probability, dropout reads the 16 bits of one element of the sequence `random`, as in ops/dropout/dropout.h;
//   without dropout, z = 1. If the segment's first query is row r of the whole batch,
//   [ATT-8]  the element is  2^24 r H + (h Tq + i) Tk + j
//
//   q, y: [Nq, H D], k, v: [Nk, H D], the rows of all segments. Head h has the columns h D ... h D + D - 1.
//   bias: [G, H, T, T], for segments of T rows each; the number of segments is a multiple of G.
//   Saved: q, k, v, bias, y, L [H, Nq].
//   Derivation: docs/derivations/attention.md. In PyTorch: torch.nn.functional.scaled_dot_product_attention.
//   Source: Vaswani et al., "Attention Is All You Need" (2017); tiles: Dao et al., "FlashAttention" (2022).
#pragma once
#include "engine/philox.h"
#include "engine/tape.h"
#include "ops/segments/segments.h"

namespace foldgrad {

struct AttentionOptions {
  int heads = 1;
  double scale = 0;  // 0 means 1 / sqrt(D)
  bool causal = false;
  double dropout = 0;  // probability of dropping an attention weight, in [0, 1)
  Random random = {};
};

// Returns y. The queries of a segment attend to the keys of the segment with the same number.
// Throws std::invalid_argument unless q, k, v have the shapes above and q's dtype and device, a head has at most 128
// columns, scale >= 0, `queries` and `keys` are on q's device and have the same number of segments, and each segment
// has fewer than 2^24 keys.
Var attention(const Var& q, const Var& k, const Var& v, const AttentionOptions& options, const Segments& queries,
              const Segments& keys);

// Computes self-attention over a joint projection qkv [N, 3 H D], which contains the columns of q, then of k, then of
// v. The projection is neither split nor copied.
Var attention_packed(const Var& qkv, const AttentionOptions& options, const Segments& rows);
// Also adds a bias to the scores. Throws std::invalid_argument unless the bias has the shape above, all segments have
// the same length, and causal is off. The fast kernels do not support a bias.
Var attention_packed(const Var& qkv, const Var& bias, const AttentionOptions& options, const Segments& rows);

}  // namespace foldgrad
