// What the tests of attention share.
#pragma once
#include "ops/attention/attention.h"
#include "tests/harness/compare.h"

namespace foldgrad::testing {

struct Sizes {
  std::int64_t batch, queries, keys;
  int heads;
  std::int64_t width;
};

// Every key counts with probability 2/3; of the last entry of the batch, when there are several, none does.
inline Tensor random_mask(std::int64_t batch, std::int64_t keys, unsigned seed) {
  std::vector<std::uint8_t> mask(std::size_t(batch * keys));
  const std::vector<std::int64_t> ids = random_ids({batch, keys}, 3, seed).values<std::int64_t>();
  for (std::size_t n = 0; n < mask.size(); ++n)
    mask[n] = ids[n] > 0 && (batch == 1 || std::int64_t(n) < (batch - 1) * keys);
  return Tensor::of<std::uint8_t>({batch, keys}, mask);
}

inline AttentionOptions with(int heads, bool causal = false, double dropout = 0) {
  return {.heads = heads, .causal = causal, .dropout = dropout, .random = {.seed = 3, .stream = 4, .step = 5}};
}

// q, k and v.
inline std::vector<Tensor> random_operands(const Sizes& s) {
  const std::int64_t columns = s.heads * s.width;
  return {randn({s.batch, s.queries, columns}, 1), randn({s.batch, s.keys, columns}, 2),
          randn({s.batch, s.keys, columns}, 3)};
}

}  // namespace foldgrad::testing
