// Rotary positions (Su et al., "RoFormer", 2021): rotates each pair of adjacent columns of a head by an angle
// proportional to the row's position. Attention scores between rotated queries and keys then depend only on the
// difference of their positions.
//
//   [ROT-1]  angle_(p, i) = p theta^(-2 i / D),  i = 0 ... D / 2 - 1
//   [ROT-2]  y_(r, 2 i)     = cos(a) x_(r, 2 i) - sin(a) x_(r, 2 i + 1),
//            y_(r, 2 i + 1) = sin(a) x_(r, 2 i) + cos(a) x_(r, 2 i + 1)     a = angle_(places_r, i), in each head
//
//   backward, the rotation by -a:
//   [ROT-3]  dx_(r, 2 i)     =  cos(a) dy_(r, 2 i) + sin(a) dy_(r, 2 i + 1),
//            dx_(r, 2 i + 1) = -sin(a) dy_(r, 2 i) + cos(a) dy_(r, 2 i + 1)
//
//   x, y: [N, H D]; the first `columns` columns are rotated, and all others are copied; in a joint projection to q, k
//   and v, two thirds are rotated. Saved: the places and the table. Derivation: docs/derivations/rotary.md. Columns are
//   paired as in LLaMA's released code (facebookresearch/llama, model.py, apply_rotary_emb); Hugging Face's
//   Transformers pairs column i with i + D / 2.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// Cosines and sines of the angles [ROT-1], on one device. Copies share memory.
struct RotaryTable {
  Tensor cosines, sines;  // [places, D / 2], f64 for f64 operands, otherwise f32

  // Computes the table for `places` positions and heads of `width` = D columns, for operands of `dtype`. Throws
  // std::invalid_argument unless width is even and at least 2, and theta is a positive number.
  RotaryTable(std::int64_t places, std::int64_t width, double theta, DType dtype, Device device = Device::cpu);
};

// `places`, i64 [N] on x's device, has the position of each row. Throws std::invalid_argument unless x is [N, H D],
// `columns` is a multiple of D and at most H D, and the sizes of places and the table match x. On the CPU, it also
// throws for a position outside the table. On CUDA, where a check would make the host wait, a row with such a position
// becomes NaN.
Var rotary(const Var& x, const Tensor& places, const RotaryTable& table, std::int64_t columns);

}  // namespace foldgrad
