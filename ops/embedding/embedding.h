// Selects rows of a table by id.
//
//   [EMB-1]  y_m = scale x_(ids_m)
//
//   backward:
//   [EMB-2]  dx_v = scale sum of dy_m over the m with ids_m = v, in the order of m; zero for v = padding_id
//
//   x: [N, ...]; ids: i64 of any shape, with M elements; y: [shape of ids, ...]. gather is embedding with scale 1 and
//   without padding.
//   Saved: ids (docs/derivations/embedding.md). In PyTorch: torch.nn.functional.embedding.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// Throws std::invalid_argument unless there are fewer than 2^31 ids, they are i64 on x's device, and padding_id is a
// row or -1 (none). On the CPU, it also throws for an id outside [0, N). On CUDA, a check would make the host wait;
// there, such an id gives a row of NaN, and the row's dy is dropped.
Var embedding(const Var& table, const Var& ids, double scale = 1, std::int64_t padding_id = -1);  // table: [V, C]
Var gather(const Var& x, const Var& ids);

}  // namespace foldgrad
