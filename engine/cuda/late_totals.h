// Totals of sums over rows that are added up together. The gradient of a bias or a gain takes two kernels: one sums
// parts of the rows, the other adds the parts up. The second has little to do but to start. A parameter's gradient is
// read by nobody before backward ends, so a tape lets its totals wait, and one launch adds up as many as fit in the
// parameters of a kernel: the same additions in the same order, so the same bits.
//
// Sums in double do not wait: they are for tests, where nobody counts launches.
#pragma once
#include "engine/grad_out.h"
#include "engine/late_totals.h"

namespace foldgrad {

inline ParameterGradOut<bf16> as_late(const ParameterGradOut<bf16>& out) { return out; }
inline ParameterGradOut<bf16> as_late(const ParameterGradOut<float>& out) {
  return {nullptr, out.data ? out.data : out.exact, out.mode};
}

// out_c = sum_part partials[part, c], or added to it. Of parts of several sums each, partials begin with this one.
struct LateTotal {
  ParameterGradOut<bf16> out;  // [columns]; f32 if `exact`
  const float* partials;       // [parts, sums, columns]
  std::int64_t columns;
  int parts, sums;
};

// As parameters of a kernel.
struct LateTotalsTable {
  static constexpr int kMost = 64;
  LateTotal totals[kMost];
  int count;
};
static_assert(sizeof(LateTotalsTable) <= 4096, "what every GPU takes as parameters of a kernel");

void late_totals_cuda(const LateTotalsTable& table);

}  // namespace foldgrad
