// Test cases and formulas that the attention tests share.
#pragma once
#include "ops/attention/attention.h"
#include "tests/harness/compare.h"

namespace foldgrad::testing {

struct Sizes {
  std::int64_t batch, queries, keys;
  int heads;
  std::int64_t width;
};

// The lengths of the segments. equal: every segment has `queries` queries and `keys` keys. ragged: the first segment
// has these lengths, and each further segment has one query and two keys fewer than the segment before it. If there are
// several segments, the last one has no keys.
enum class Lengths { equal, ragged };

struct Rows {
  Segments queries, keys;

  Rows(const Sizes& s, Lengths lengths) {
    std::vector<std::int64_t> of_queries, of_keys;
    for (std::int64_t b = 0; b < s.batch; ++b) {
      const bool last = s.batch > 1 && b + 1 == s.batch, ragged = lengths == Lengths::ragged;
      of_queries.push_back(ragged ? std::max<std::int64_t>(s.queries - b, 0) : s.queries);
      of_keys.push_back(ragged ? std::max<std::int64_t>(last ? 0 : s.keys - 2 * b, 0) : s.keys);
    }
    queries = Segments(of_queries);
    keys = Segments(of_keys);
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

inline std::string label_of(const Sizes& s, const AttentionOptions& options, Lengths lengths) {
  return fmt::format("{} x {} queries, {} keys, {} heads of {}{}{}{}", s.batch, s.queries, s.keys, s.heads, s.width,
                     options.causal ? ", causal" : "", options.dropout > 0 ? ", dropout" : "",
                     lengths == Lengths::ragged ? ", ragged" : "");
}

// Returns random q, k and v.
inline std::vector<Tensor> random_operands(const Rows& rows, const Sizes& s) {
  const std::int64_t columns = s.heads * s.width;
  return {randn({rows.queries.rows(), columns}, 1), randn({rows.keys.rows(), columns}, 2),
          randn({rows.keys.rows(), columns}, 3)};
}

// Computes attention for v = {q, k, v}, after moving `rows` to the device of q.
inline Var attend(const std::vector<Var>& v, const AttentionOptions& options, const Rows& rows) {
  const Rows there = rows.on(v[0].device());
  return attention(v[0], v[1], v[2], options, there.queries, there.keys);
}

// The probabilities p [ATT-2] and the dropout factors z [ATT-3] of all keys, for query i of segment s in head h.
struct Probabilities {
  std::vector<double> p, z;

  Probabilities(const std::vector<Tensor>& in, const AttentionOptions& options, const Rows& rows, std::int64_t s,
                std::int64_t h, std::int64_t i)
      : p(std::size_t(rows.keys.length(s))), z(p) {
    const std::int64_t row = in[0].shape()[1], D = row / options.heads, Tq = rows.queries.length(s),
                       K = rows.keys.length(s);
    const double scale = options.scale > 0 ? options.scale : 1 / std::sqrt(double(D));
    const double *q = in[0].data<double>() + (rows.queries.offset(s) + i) * row + h * D,
                 *k = in[1].data<double>() + rows.keys.offset(s) * row + h * D;
    const double dropped = std::round(options.dropout * 65536);  // a random 16-bit number below this means a drop
    const std::uint64_t first = std::uint64_t(rows.queries.offset(s) * options.heads) << 24;
    double sum = 0;
    for (std::int64_t j = 0; j < K; ++j) {
      if (options.causal && j > i + K - Tq) continue;
      double score = 0;
      for (std::int64_t c = 0; c < D; ++c) score += scale * q[c] * k[j * row + c];
      sum += p[std::size_t(j)] = std::exp(score);
      const std::uint64_t element = first + std::uint64_t((h * Tq + i) * K + j);  // [ATT-8]
      z[std::size_t(j)] = options.random.bits16(element) >= dropped ? 65536 / (65536 - dropped) : 0;
    }
    for (double& probability : p) probability = sum > 0 ? probability / sum : 0;
  }
};

}  // namespace foldgrad::testing
