// Attention to a cache on the CPU, one query at a time. The suffix _fma means that this file is compiled with
// -ffp-contract=fast, since sums of products take nearly all of the time.
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

constexpr std::int64_t kKeys = 4;  // number of keys processed together, whose additions are independent

// One thread's scratch memory.
template <class T>
struct Room {
  std::vector<const T*> keys;  // keys of the current query
  std::vector<compute_t<T>> query, weights, sums;
};

// Pointers to `count` keys. The remaining entries repeat the last key.
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
  } else {  // each step adds pairs of vectors, and halves the number of lanes per sum
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

// Writes query . key to `weights`, for kKeys keys and every head. A head has `width` columns. The weights of a head
// begin `weight_head` elements after those of the previous head.
template <class T, class V>
void score(const V* query, const Keys<T>& keys, V* weights, std::int64_t weight_head, std::int64_t heads,
           std::int64_t width) {
  const std::int64_t whole = width / kLanes<V> * kLanes<V>;
  for (std::int64_t h = 0; h < heads; ++h) {
    const std::int64_t begin = h * width, end = begin + width;
    Vector<V> sums[kKeys] = {};
    for (std::int64_t i = begin; i < begin + whole; i += kLanes<V>) {
      const Vector<V> q = load(query + i);
      for (int j = 0; j < kKeys; ++j) sums[j] += q * load(keys.key[j] + i);
    }
    V* to = weights + h * weight_head;
    sum_lanes<V>(sums, to);
    for (std::int64_t i = begin + whole; i < end; ++i)
      for (int j = 0; j < kKeys; ++j) to[j] += query[i] * V(keys.key[j][i]);
  }
}

// Adds weight times value to the sums, for up to kKeys keys and every head. A value is `offset` elements after its key.
template <class T, class V>
void add_values(const V* weights, const Keys<T>& keys, std::int64_t offset, V* sums, std::int64_t weight_head,
                std::int64_t heads, std::int64_t width) {
  const std::int64_t whole = width / kLanes<V> * kLanes<V>;
  for (std::int64_t h = 0; h < heads; ++h) {
    const std::int64_t begin = h * width, end = begin + width;
    V weight[kKeys];
    for (int j = 0; j < kKeys; ++j) weight[j] = j < keys.count ? weights[h * weight_head + j] : V(0);
    for (std::int64_t i = begin; i < begin + whole; i += kLanes<V>) {
      Vector<V> sum = load(sums + i);
      for (int j = 0; j < kKeys; ++j) sum += weight[j] * load(keys.key[j] + offset + i);
      store(sums + i, sum);
    }
    for (std::int64_t i = begin + whole; i < end; ++i)
      for (int j = 0; j < kKeys; ++j) sums[i] += weight[j] * V(keys.key[j][offset + i]);
  }
}

// Replaces n scores with their softmax. The array must have room for whole vectors.
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

// Computes y of query r.
template <class T>
void attend(const CachedAttention<T>& p, std::int64_t r, Room<T>& room) {
  using V = compute_t<T>;
  constexpr bool kDirect = std::is_same_v<T, V>;
  room.keys.clear();
  for (std::int64_t j = p.begins[r]; j < p.begins[r + 1]; ++j) room.keys.push_back(p.key(j));
  const std::int64_t n = std::int64_t(room.keys.size()), C = p.columns(), head = padded<V>(n + kKeys - 1);
  room.weights.resize(p.heads * head);
  const V* query;
  V* sums;
  if constexpr (kDirect) {
    query = p.q + r * p.q_row;
    sums = p.y + r * C;
  } else {
    room.query.assign(p.q + r * p.q_row, p.q + r * p.q_row + C);
    room.sums.resize(C);
    query = room.query.data();
    sums = room.sums.data();
  }
  std::fill_n(sums, C, V(0));
  V* weights = room.weights.data();
  for (std::int64_t j = 0; j < n; j += kKeys)
    score(query, Keys<T>(room.keys, j, n), weights + j, head, p.heads, p.width);
  for (std::int64_t h = 0; n > 0 && h < p.heads; ++h) probabilities(weights + h * head, n, V(p.scale));
  for (std::int64_t j = 0; j < n; j += kKeys)
    add_values(weights + j, Keys<T>(room.keys, j, n), C, sums, head, p.heads, p.width);
  if constexpr (!kDirect) write_cpu(p.y + r * C, 0, C, /*bypass=*/false, [sums](std::int64_t i) { return sums[i]; });
}

}  // namespace

template <class T>
void cached_attention_cpu(const CachedAttention<T>& p) {
  const std::int64_t elements = p.begins[p.queries] * p.columns();
  parallel_ranges(p.queries, elements / std::max<std::int64_t>(p.queries, 1),
                  [&](std::int64_t begin, std::int64_t end) {
                    Room<T> room;
                    for (std::int64_t r = begin; r < end; ++r) attend(p, r, room);
                  });
}

FOLDGRAD_INSTANTIATE(cached_attention_cpu, CachedAttention);

}  // namespace foldgrad
