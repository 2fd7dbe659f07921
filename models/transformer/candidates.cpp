#include "models/transformer/candidates.h"

#include <algorithm>
#include <cmath>

#include "ops/top_k/top_k.h"

namespace foldgrad {

std::vector<std::vector<Candidate>> best_candidates(const Tensor& logits, const std::vector<Continuation>& rows,
                                                    std::int64_t count, std::int64_t pad,
                                                    const DecodingOptions& options) {
  const std::int64_t V = logits.shape()[-1], eos = options.eos, unk = options.unk;
  const bool unk_is_special = unk >= 0 && unk < V && unk != eos && unk != pad;
  // At most three of the largest are padding, the end and unk, to which other rules apply.
  const std::int64_t k = std::min(count + 3, V);
  const TopK top = top_k(logits, k, {eos, unk_is_special ? unk : eos});
  const auto on_host = [](const Tensor& t) { return t.to(Device::cpu).to(DType::f64).values<double>(); };
  const std::vector<double> values = on_host(top.values), sums = on_host(top.log_sum_exp),
                            special = on_host(top.wanted);
  const std::vector<std::int64_t> ids = top.indices.values<std::int64_t>();
  std::vector<std::vector<Candidate>> all;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::vector<Candidate>& best = all.emplace_back();
    const double base = rows[r].score - sums[r];
    const auto offer = [&](std::int64_t v, double z, double penalty) {
      const Candidate c{base + z - penalty, std::int64_t(r), v};
      if (c.score > -std::numeric_limits<double>::infinity()) best.push_back(c);  // no NaN either
    };
    if (rows[r].may_end) offer(eos, special[2 * r], 0);
    if (rows[r].may_go_on && unk_is_special) offer(unk, special[2 * r + 1], options.unk_penalty);
    for (std::size_t i = r * std::size_t(k); rows[r].may_go_on && i < (r + 1) * std::size_t(k); ++i)
      if (ids[i] >= 0 && ids[i] != eos && ids[i] != pad && ids[i] != unk) offer(ids[i], values[i], 0);
    std::ranges::sort(best, [](const Candidate& a, const Candidate& b) { return a.before(b); });
    best.resize(std::min(best.size(), std::size_t(count)));
  }
  return all;
}

}  // namespace foldgrad
