// The arithmetic of folding, on f64 tensors of the host.
#pragma once
#include "models/fold/plan.h"

namespace foldgrad {

// Replaces b by b + W B and W by W diag(A), for the columns of W [out, ...] at the maps' places. b: [out] or undefined;
// it is written first, from the old W. [FOLD-1] [FOLD-2]
void fold_columns(const Tensor& W, const Tensor& b, const std::vector<ChannelMap>& maps);

// Replaces W by diag(A) W, for W [out, in]; a row's channel is row mod C. [FOLD-3]
void fold_rows(const Tensor& W, const AffineMap& map);
// Replaces the rows x of a table [rows, C], or a whole bias [rows C], by A x + add * B.
void fold_table(const Tensor& table, const AffineMap& map, double add);

// Replaces W by diag(1/A) W. [FOLD-5]
void divide_rows(const Tensor& W, const std::vector<double>& A);

}  // namespace foldgrad
