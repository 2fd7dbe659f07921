// The arithmetic of folding, on f64 tensors of the host.
#pragma once
#include "models/fold/plan.h"

namespace foldgrad {

// Writes b + W B and W diag(A), for the columns of W [out, ...] at the maps' places. b: [out] or undefined; it is
// written first, from the old W. [FOLD-1] [FOLD-2]
void fold_columns(const Tensor& W, const Tensor& b, const std::vector<ChannelMap>& maps);

// Writes diag(A) W for rows of W [out, in], whose channel is row mod C. [FOLD-3]
void fold_rows(const Tensor& W, const AffineMap& map);
// Writes A x + add * B for the rows x of a table [rows, C], or for all of a bias [rows C].
void fold_table(const Tensor& table, const AffineMap& map, double add);

// Writes diag(1/A) W. [FOLD-5]
void divide_rows(const Tensor& W, const std::vector<double>& A);

}  // namespace foldgrad
