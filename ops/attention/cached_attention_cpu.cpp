#include <numeric>

#include "ops/attention/cached_attention_kernels.h"
#include "ops/attention/step_attention.h"

namespace foldgrad {

// The scale of step_attention.h is that of [ATT-7] too.
template <class T>
void cached_attention_cpu(const CachedAttention<T>& p) {
  std::vector<std::int64_t> alone(std::size_t(p.queries) + 1);
  std::iota(alone.begin(), alone.end(), std::int64_t(0));
  const StepAttention<T> step{
      .y = p.y, .q = p.q, .q_row = p.columns(), .heads = p.heads, .width = p.width, .value_offset = p.columns()};
  attend_rows(step, alone, p.begins[p.queries], [&](std::int64_t r, std::vector<const T*>& keys) {
    for (std::int64_t j = p.begins[r]; j < p.begins[r + 1]; ++j) keys.push_back(p.key(j));
  });
}

FOLDGRAD_INSTANTIATE(cached_attention_cpu, CachedAttention);

}  // namespace foldgrad
