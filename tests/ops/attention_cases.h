// Cases and comparisons that the tests of attention share.
#pragma once
#include "ops/attention/attention.h"
#include "tests/harness/compare.h"

namespace foldgrad::testing {

struct Sizes {
  std::int64_t batch, queries, keys;
  int heads;
  std::int64_t width;
};

// equal: all segments have as many queries and keys. ragged: the first has that many, each further one fewer, the last
// of several no key. padded: all have that much room, of which two thirds of the keys count, or none for the last of
// several.
enum class Lengths { equal, ragged, padded };

struct Rows {
  Segments queries, keys;

  Rows(const Sizes& s, Lengths lengths) {
    std::vector<std::int64_t> of_queries, of_keys, rooms;
    for (std::int64_t b = 0; b < s.batch; ++b) {
      const bool last = s.batch > 1 && b + 1 == s.batch, ragged = lengths == Lengths::ragged;
      of_queries.push_back(ragged ? std::max<std::int64_t>(s.queries - b, 0) : s.queries);
      const std::int64_t fewer = ragged ? std::max<std::int64_t>(s.keys - 2 * b, 0) : (2 * s.keys + 2) / 3;
      of_keys.push_back(lengths == Lengths::equal ? s.keys : last ? 0 : fewer);
      rooms.push_back(ragged ? of_keys.back() : s.keys);
    }
    queries = Segments(of_queries);
    keys = Segments(of_keys, rooms);
  }
  Rows on(Device device) const {
    Rows there = *this;
    there.queries = queries.to(device);
    there.keys = keys.to(device);
    return there;
  }
};

inline AttentionOptions with(int heads, bool causal = false, double dropout = 0) {
  return {.heads = heads, .causal = causal, .dropout = dropout, .random = {.seed = 3, .stream = 4, .step = 5}};
}

// q, k and v.
inline std::vector<Tensor> random_operands(const Rows& rows, const Sizes& s) {
  const std::int64_t columns = s.heads * s.width;
  return {randn({rows.queries.rows(), columns}, 1), randn({rows.keys.rows(), columns}, 2),
          randn({rows.keys.rows(), columns}, 3)};
}

// Attention of v's q, k and v, on whatever device they are.
inline Var attend(const std::vector<Var>& v, const AttentionOptions& options, const Rows& rows) {
  const Rows there = rows.on(v[0].device());
  return attention(v[0], v[1], v[2], options, there.queries, there.keys);
}

// [ATT-8], counted from query i and key j of segment s.
inline std::uint64_t random_element(const Rows& rows, int heads, std::int64_t s, std::int64_t h, std::int64_t i,
                                    std::int64_t j) {
  const std::int64_t first = rows.queries.offset(s) * heads;
  return (std::uint64_t(first) << 24) + std::uint64_t((h * rows.queries.room(s) + i) * rows.keys.length(s) + j);
}

}  // namespace foldgrad::testing
