// Adds position embeddings to the embeddings of tokens.
//
//   [POS-1]  table_(p, i) = sin(p f_i),  table_(p, h + i) = cos(p f_i),  i = 0 ... h - 1,  h = floor(C / 2),
//            f_i = exp(-i ln(10000) / (h - 1));  an odd C leaves the last column zero, and row 1 is zero
//   [POS-2]  p_r = 2 + the index of row r in its sentence, counted from 0
//   [POS-3]  sinusoidal:  y_r  = x_r + table_(p_r)    dx = dy
//   [POS-4]  learned:     y_bt = x_bt + table_t       dx = dy
//
//   backward, of the learned table:
//   [POS-5]  dtable_tc = sum_b dy_btc for t < T, zero for later rows
//
//   x, y: sinusoidal [N, C], learned [B, T, C]. Saved: nothing.
//   Source: Vaswani et al., 2017, in the form of fairseq's SinusoidalPositionalEmbedding with padding index 1: all
//   sines, then all cosines. The paper alternates them.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// Computes [POS-1]. Call it once per model. Throws std::invalid_argument for a negative size or an integer dtype.
Tensor sinusoidal_table(std::int64_t rows, std::int64_t columns, DType dtype, Device device = Device::cpu);

// The table is a constant. `places`, i64 [N] on the CPU, has each row's index in its sentence (Segments::places()).
// Throws std::invalid_argument unless the table is [., C] with x's dtype and device, and has a row for every place.
Var sinusoidal_positions(const Var& x, const Tensor& places, const Tensor& table);

// Throws std::invalid_argument unless table has x's dtype and device, C columns, and at least T rows.
Var learned_positions(const Var& x, const Var& table);

}  // namespace foldgrad
