// CPU loops over the rows of a matrix.
#pragma once
#include <array>
#include <cstdint>

#include "engine/cpu/elementwise.h"

namespace foldgrad {

// Calls body(r) for every row, on all threads. Each call processes about `elements` elements.
void for_rows_cpu(std::int64_t rows, std::int64_t elements, const auto& body) {
  parallel_ranges(rows, elements, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) body(r);
  });
}

// Calls body(begin, end) for groups of at most kRowGroup rows and about 1024 elements. An operation runs each step on
// all rows of a group before the next step, so that the reductions of several rows overlap. With larger groups, memory
// would be idle while the later steps run in the cache (tuned).
constexpr std::int64_t kRowGroup = 8;
void for_row_groups_cpu(std::int64_t rows, std::int64_t columns, const auto& body) {
  const std::int64_t size = std::clamp<std::int64_t>(1024 / std::max<std::int64_t>(columns, 1), 1, kRowGroup);
  for_rows_cpu((rows + size - 1) / size, size * columns,
               [&](std::int64_t g) { body(g * size, std::min(rows, (g + 1) * size)); });
}

// Returns true if a result of this size, computed from rows in the L1 cache, should bypass the caches. It should not if
// a store covers only half a cache line: bursts of such stores take 1.5 times as long as plain ones (AVX2 on a Zen 5).
constexpr bool rows_bypass_cache(const auto& target, std::int64_t elements) {
  return kVectorBytes == 64 && bypasses_cache(target, elements);
}

// Merges a[0 .. n) in a binary tree; n must be a power of two. The function is inlined so that `a` stays in registers.
template <int n, class Value, class Merge>
[[gnu::always_inline]] inline Value merge_lanes(Value* a, const Merge& merge) {
  if constexpr (n == 1) {
    return a[0];
  } else {
#pragma omp simd
    for (int j = 0; j < n / 2; ++j) a[j] = merge(a[j], a[j + n / 2]);
    return merge_lanes<n / 2>(a, merge);
  }
}

// Folds a row into K results: step(c, results) adds element c to the results, and merge(a, b) combines two partial
// results. The order is the same for every instruction set: lane j takes elements j, j + kLanes, j + 2 * kLanes, ...
// The lanes fill four registers of 512 bits: while one register waits for its previous step, the others advance.
template <int K, class Value, class Step, class Merge>
std::array<Value, K> fold_cpu(std::int64_t n, Value identity, const Step& step, const Merge& merge) {
  static_assert((K & (K - 1)) == 0, "merge_lanes() needs a power of two");
  constexpr int kLanes = 256 / int(sizeof(Value)) / K;
  const Step local = step;  // a copy in registers: a reference could alias the output
  Value lanes[K][kLanes];
  for (auto& of_k : lanes)
    for (Value& lane : of_k) lane = identity;
  const auto take = [&](std::int64_t c, int j) {
    Value results[K];
    for (int k = 0; k < K; ++k) results[k] = lanes[k][j];
    local(c, results);
    for (int k = 0; k < K; ++k) lanes[k][j] = results[k];
  };
  std::int64_t c = 0;
  for (; c + kLanes <= n; c += kLanes)
#pragma omp simd
    for (int j = 0; j < kLanes; ++j) take(c + j, j);
  for (int j = 0; c < n; ++c, ++j) take(c, j);
  std::array<Value, K> results;
  for (int k = 0; k < K; ++k) results[k] = merge_lanes<kLanes>(lanes[k], merge);
  return results;
}

// Returns K sums over a row; add(c, sums) must add the terms of element c to the sums.
template <int K, class Value, class Add>
std::array<Value, K> sums_cpu(std::int64_t n, const Add& add) {
  return fold_cpu<K>(n, Value(0), add, [](Value a, Value b) { return a + b; });
}
// Returns the sum of f(c) over a row.
template <class Value, class F>
Value sum_cpu(std::int64_t n, const F& f) {
  return sums_cpu<1, Value>(n, [f](std::int64_t c, Value(&sum)[1]) { sum[0] += f(c); })[0];
}

}  // namespace foldgrad
