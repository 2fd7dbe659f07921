// The arithmetic of folding, on f64 tensors on the host.
#pragma once
#include "models/fold/plan.h"

namespace foldgrad {

// Replaces b with b + W B, then W with W diag(A), for the columns of W [out, ...] at the maps' places. b is [out] or
// undefined. [FOLD-1] [FOLD-2]
void fold_columns(const Tensor& W, const Tensor& b, const std::vector<ChannelMap>& maps);

// Replaces W [out, in] with diag(A) W. Row r belongs to channel r mod C. [FOLD-3]
void fold_rows(const Tensor& W, const AffineMap& map);
// Replaces each row x of a table [rows, C] with A x + add * B. A bias [rows * C] is treated like a table [rows, C].
void fold_table(const Tensor& table, const AffineMap& map, double add);

// Replaces W with diag(1/A) W. [FOLD-5]
void divide_rows(const Tensor& W, const std::vector<double>& A);

}  // namespace foldgrad
