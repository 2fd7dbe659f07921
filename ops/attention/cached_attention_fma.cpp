// Attention to a cache on the CPU, for several queries at once. The suffix _fma means -ffp-contract=fast; nearly all
// work here is sums of products.
#include <algorithm>
#include <limits>
#include <vector>

#include "engine/cpu/threads.h"
#include "engine/cpu/vector.h"
#include "engine/cpu/vector_math.h"
#include "engine/cpu/write.h"
#include "ops/attention/cached_attention_kernels.h"

namespace foldgrad {
namespace {

constexpr std::int64_t kKeys = 4;  // taken together, so that their sums do not wait for each other

// The most queries computed together. Keys that they share are then read only once.
constexpr std::int64_t kCompany = 5;

// One thread's scratch memory.
template <class T>
struct Room {
  std::vector<const T*> keys[kCompany];  // each current query's keys, the same number for each
  std::vector<compute_t<T>> queries, weights, sums;
};

// `count` keys; the last one is repeated up to kKeys.
template <class T>
struct Keys {
  const T* key[kKeys];
  std::int64_t count;

  Keys(const std::vector<const T*>& all, std::int64_t first, std::int64_t end) : count(std::min(kKeys, end - first)) {
    for (std::int64_t j = 0; j < kKeys; ++j) key[j] = all[first + std::min(j, count - 1)];
  }
};

// Sums the lanes of each of four vectors.
template <class V>
[[gnu::always_inline]] inline void sum_lanes(const Vector<V> (&x)[kKeys], V* sums) {
  constexpr int L = kLanes<V>;
  if constexpr (L < 4) {
    for (int j = 0; j < kKeys; ++j) {
      sums[j] = 0;
      for (int l = 0; l < L; ++l) sums[j] += x[j][l];
    }
  } else {  // adds pairs of vectors, so that half of a sum's lanes belong to each; then adds pairs of these sums
    VectorOrder<V> even, odd, low, high, turned;
    for (int l = 0; l < L; ++l) {
      even[l] = l % 2 * L + l / 2 * 2;
      odd[l] = even[l] + 1;
      low[l] = l % 4 / 2 * L + l / 4 * 4 + l % 2;
      high[l] = low[l] + 2;
    }
    const Vector<V> a = __builtin_shuffle(x[0], x[1], even) + __builtin_shuffle(x[0], x[1], odd);
    const Vector<V> b = __builtin_shuffle(x[2], x[3], even) + __builtin_shuffle(x[2], x[3], odd);
    Vector<V> all = __builtin_shuffle(a, b, low) + __builtin_shuffle(a, b, high);
    for (int step = L / 2; step >= 4; step /= 2) {
      for (int l = 0; l < L; ++l) turned[l] = (l + step) % L;
      all += __builtin_shuffle(all, turned);
    }
    std::memcpy(sums, &all, kKeys * sizeof(V));
  }
}

// A group of rows: pointers to the first row's query, weights and sums, and the sizes that the kernels need.
template <class V>
struct Rows {
  const V* queries;
  V *weights, *sums;
  std::int64_t query_row, weight_row, sum_row, weight_head;  // elements from one row, or head, to the next
  std::int64_t heads, width;

  Rows from(std::int64_t row) const {
    Rows rest = *this;
    rest.queries += row * query_row;
    rest.weights += row * weight_row;
    rest.sums += row * sum_row;
    return rest;
  }
};

// Writes weights: query . key of keys first ... first + 3, for every row and head.
template <int kRows, class T, class V>
void score(const Rows<V>& rows, const Keys<T>& keys, std::int64_t first) {
  const std::int64_t D = rows.width, whole = D / kLanes<V> * kLanes<V>;
  for (std::int64_t h = 0; h < rows.heads; ++h) {
    Vector<V> sums[kRows][kKeys];
    for (auto& of_row : sums)
      for (Vector<V>& sum : of_row) sum = Vector<V>{};
    for (std::int64_t i = h * D; i < h * D + whole; i += kLanes<V>) {
      Vector<V> key[kKeys];
      for (int j = 0; j < kKeys; ++j) key[j] = load(keys.key[j] + i);
      for (int r = 0; r < kRows; ++r) {
        const Vector<V> query = load(rows.queries + r * rows.query_row + i);
        for (int j = 0; j < kKeys; ++j) sums[r][j] += query * key[j];
      }
    }
    for (int r = 0; r < kRows; ++r) {
      V* to = rows.weights + r * rows.weight_row + h * rows.weight_head + first;
      sum_lanes<V>(sums[r], to);
      for (std::int64_t i = h * D + whole; i < (h + 1) * D; ++i)
        for (int j = 0; j < kKeys; ++j) to[j] += rows.queries[r * rows.query_row + i] * V(keys.key[j][i]);
    }
  }
}

// Adds weight times value of keys first ... first + 3 to the sums, for every row and head.
template <int kRows, class T, class V>
void add_values(const Rows<V>& rows, const Keys<T>& keys, std::int64_t first, std::int64_t offset) {
  const std::int64_t D = rows.width, whole = D / kLanes<V> * kLanes<V>;
  for (std::int64_t h = 0; h < rows.heads; ++h) {
    V weights[kRows][kKeys];
    for (int r = 0; r < kRows; ++r)
      for (int j = 0; j < kKeys; ++j)
        weights[r][j] = j < keys.count ? rows.weights[r * rows.weight_row + h * rows.weight_head + first + j] : V(0);
    for (std::int64_t i = h * D; i < h * D + whole; i += kLanes<V>) {
      Vector<V> value[kKeys];
      for (int j = 0; j < kKeys; ++j) value[j] = load(keys.key[j] + offset + i);
      for (int r = 0; r < kRows; ++r) {
        V* to = rows.sums + r * rows.sum_row + i;
        Vector<V> sum = load(to);
        for (int j = 0; j < kKeys; ++j) sum += weights[r][j] * value[j];
        store(to, sum);
      }
    }
    for (int r = 0; r < kRows; ++r)
      for (std::int64_t i = h * D + whole; i < (h + 1) * D; ++i)
        for (int j = 0; j < kKeys; ++j) rows.sums[r * rows.sum_row + i] += weights[r][j] * V(keys.key[j][offset + i]);
  }
}

// Calls f with the number of rows as a compile-time constant, so that per-row values stay in registers.
template <int kRows = int(kCompany), class F>
void with_rows(std::int64_t rows, const F& f) {
  if constexpr (kRows > 1)
    if (rows < kRows) return with_rows<kRows - 1>(rows, f);
  f(std::integral_constant<int, kRows>());
}

// Replaces n scores by their softmax, in whole vectors; the array has room for these.
template <class V>
void probabilities(V* weights, std::int64_t n, V scale) {
  const std::int64_t whole = padded<V>(n);
  std::fill(weights + n, weights + whole, -std::numeric_limits<V>::infinity());
  V top = weights[0], total = 0;
#pragma omp simd reduction(max : top)
  for (std::int64_t j = 0; j < whole; ++j) top = weights[j] > top ? weights[j] : top;
#pragma omp simd reduction(+ : total)
  for (std::int64_t j = 0; j < whole; ++j) total += weights[j] = fast_exp_nonpositive(scale * (weights[j] - top));
  const V factor = 1 / total;
#pragma omp simd
  for (std::int64_t j = 0; j < whole; ++j) weights[j] *= factor;
}

// Calls f(together, rows, keys, first): first for keys that all rows share, then for each row's own keys.
template <class T, class V, class F>
void for_keys(const Rows<V>& rows, std::int64_t count, const std::vector<const T*>* keys, std::int64_t shared,
              const F& f) {
  const std::int64_t n = std::int64_t(keys[0].size());
  with_rows(count, [&](auto together) {
    for (std::int64_t j = 0; j < shared; j += kKeys) f(together, rows, Keys<T>(keys[0], j, shared), j);
  });
  for (std::int64_t r = 0; r < count; ++r)
    for (std::int64_t j = shared; j < n; j += kKeys)
      f(std::integral_constant<int, 1>(), rows.from(r), Keys<T>(keys[r], j, n), j);
}

// Computes queries [first, first + count); their keys are in `room`. Grouping changes no bit.
template <class T>
void attend(const CachedAttention<T>& p, std::int64_t first, std::int64_t count, Room<T>& room) {
  using V = compute_t<T>;
  constexpr bool kDirect = std::is_same_v<T, V>;
  const std::int64_t n = std::int64_t(room.keys[0].size()), C = p.columns(), head = padded<V>(n + kKeys - 1);
  const T* q = p.q + first * p.q_row;
  T* y = p.y + first * C;
  room.weights.resize(count * p.heads * head);
  Rows<V> rows{.queries = nullptr,
               .weights = room.weights.data(),
               .sums = nullptr,
               .query_row = p.q_row,
               .weight_row = p.heads * head,
               .sum_row = C,
               .weight_head = head,
               .heads = p.heads,
               .width = p.width};
  if constexpr (kDirect) {
    rows.queries = q;
    rows.sums = y;
  } else {
    room.queries.resize(count * C);
    for (std::int64_t r = 0; r < count; ++r) std::copy_n(q + r * p.q_row, C, room.queries.data() + r * C);
    room.sums.resize(count * C);
    rows.queries = room.queries.data();
    rows.query_row = C;
    rows.sums = room.sums.data();
  }
  std::fill_n(rows.sums, count * C, V(0));
  std::int64_t shared = n;
  for (std::int64_t r = 1; r < count; ++r)
    shared = std::mismatch(room.keys[0].begin(), room.keys[0].begin() + shared, room.keys[r].begin()).first -
             room.keys[0].begin();
  for_keys<T>(
      rows, count, room.keys, shared,
      [](auto together, const Rows<V>& some, const Keys<T>& keys, std::int64_t j) { score<together>(some, keys, j); });
  for (std::int64_t i = 0; n > 0 && i < count * p.heads; ++i) probabilities(rows.weights + i * head, n, V(p.scale));
  for_keys<T>(rows, count, room.keys, shared,
              [C](auto together, const Rows<V>& some, const Keys<T>& keys, std::int64_t j) {
                add_values<together>(some, keys, j, C);
              });
  if constexpr (!kDirect)
    write_cpu(y, 0, count * C, /*bypass=*/false, [sums = rows.sums](std::int64_t i) { return sums[i]; });
}

// Returns where each group of queries begins, and the end. A group is neighbouring queries with the same number of keys
// that share the first keys, such as the hypotheses of a sentence.
template <class T>
std::vector<std::int64_t> companies(const CachedAttention<T>& p) {
  std::vector<std::int64_t> begins;
  const auto keys = [&p](std::int64_t r) { return p.begins[r + 1] - p.begins[r]; };
  for (std::int64_t r = 0; r < p.queries; ++r)
    if (r == 0 || r == begins.back() + kCompany || keys(r) == 0 || keys(r) != keys(r - 1) ||
        p.places[p.begins[r]] != p.places[p.begins[r - 1]])
      begins.push_back(r);
  begins.push_back(p.queries);
  return begins;
}

}  // namespace

template <class T>
void cached_attention_cpu(const CachedAttention<T>& p) {
  const std::vector<std::int64_t> begins = companies(p);
  const std::int64_t count = std::int64_t(begins.size()) - 1;
  const std::int64_t elements = p.begins[p.queries] * p.columns();
  parallel_ranges(count, elements / std::max<std::int64_t>(count, 1), [&](std::int64_t begin, std::int64_t end) {
    Room<T> room;
    for (std::int64_t g = begin; g < end; ++g) {
      for (std::int64_t r = begins[g]; r < begins[g + 1]; ++r) {
        std::vector<const T*>& keys = room.keys[r - begins[g]];
        keys.clear();
        for (std::int64_t j = p.begins[r]; j < p.begins[r + 1]; ++j) keys.push_back(p.key(j));
      }
      attend(p, begins[g], begins[g + 1] - begins[g], room);
    }
  });
}

FOLDGRAD_INSTANTIATE(cached_attention_cpu, CachedAttention);

}  // namespace foldgrad
