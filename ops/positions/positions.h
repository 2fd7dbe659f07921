// Positions of tokens, added to their embeddings.
//
//   [POS-1]  table_(p, i) = sin(p f_i),  table_(p, h + i) = cos(p f_i),  i = 0 ... h - 1,  h = floor(C / 2),
//            f_i = exp(-i ln(10000) / (h - 1));  an odd C leaves the last column zero, and row 1 is zero
//   [POS-2]  p_bt = 1 + sum of mask_bs over s <= t  where mask_bt = 1;  p_bt = 1 where it is 0
//   [POS-3]  y_bt = x_bt + table_(p_bt)         sinusoidal: the first token of a sentence has position 2, padding 1
//   [POS-4]  y_bt = x_bt + table_t              learned
//   [POS-6]  y_bt = 0, dx_bt = 0  where mask_bt = 0, with zero_padding
//
//   backward: otherwise dx = dy, and of the learned table
//   [POS-5]  dtable_tc = sum_b dy_btc  for t < T, zero for the rows behind
//
//   x, y: [B, T, C]; mask: u8 [B, T], 1 for tokens, 0 for padding, which may stand anywhere. Saved: mask, for POS-6.
//   Source: Vaswani et al., 2017, in the form of fairseq's SinusoidalPositionalEmbedding with padding index 1: sines
//   first, then cosines, where the paper interleaves them.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// [POS-1], made once per model. Throws std::invalid_argument for negative sizes or another dtype.
Tensor sinusoidal_table(std::int64_t rows, std::int64_t columns, DType dtype, Device device = Device::cpu);

// The table is a constant. Positions are counted on x's device. Throws std::invalid_argument unless the table is
// [at least T + 2, C] and the mask is u8 [B, T], both on x's device.
Var sinusoidal_positions(const Var& x, const Var& mask, const Tensor& table, bool zero_padding = false);

// Throws std::invalid_argument unless table is [at least T, C], of x's dtype and device.
Var learned_positions(const Var& x, const Var& table);

}  // namespace foldgrad
