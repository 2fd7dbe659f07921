// Blocks of attention for both passes on the CPU. A block has up to 80 queries and 80 keys of one head, so that its
// scores and operands stay in a core's cache. bf16 operands are converted to float.
#pragma once
#include <algorithm>
#include <limits>
#include <memory>
#include <type_traits>

#include "engine/cpu/philox_block.h"
#include "engine/memory.h"
#include "ops/attention/attention_gemm.h"
#include "ops/attention/attention_kernels.h"

namespace foldgrad::attention_cpu_blocks {

// The maximum number of positions in a block. For 32 to 128 positions, blocks of 64 are fastest (on a Zen 5 with 48 KiB
// and 1 MiB of cache per core); 80 avoids a second block for 64 patches and a class token.
constexpr std::int64_t kBlock = 80;

// Returns the cost of one of n equal parts of the attention computation, in the unit of parallel_ranges(): elements of
// an element-wise loop. Two multiplications cost as much as one element.
inline std::int64_t elements_of_work(const AttentionShape& s, std::int64_t n) {
  return s.products / 2 / std::max<std::int64_t>(n, 1);
}

// A block of queries of one head, starting at query `first`.
struct QueryBlock {
  std::int64_t head, first;
};

// Divides a head's queries or keys evenly into blocks. Returns their size, which is rounded up to whole vectors.
template <class V>
std::int64_t block_of(std::int64_t positions) {
  const std::int64_t some = std::max<std::int64_t>(positions, 1), blocks = (some + kBlock - 1) / kBlock;
  return padded<V>((some + blocks - 1) / blocks);
}

// One thread's scratch memory for `elements` elements, handed out in parts that are aligned to vectors.
template <class V>
class Arena {
 public:
  explicit Arena(std::int64_t elements)
      : memory_(memory::allocate(Device::cpu, std::size_t(elements) * sizeof(V))),
        next_(static_cast<V*>(memory_.get())) {}
  V* take(std::int64_t n) {
    V* taken = next_;
    next_ += padded<V>(n);
    return taken;
  }

 private:
  std::shared_ptr<void> memory_;
  V* next_;
};

template <class V>
struct Matrix {
  V* data;
  std::int64_t row;  // stride: elements from one row to the next
};

// Calls f(c) for c = 0 ... n - 1. A head's rows are so short that a vectorized loop of unknown length would spend most
// of its time before and after its vectors, so each inner loop here has the length of one vector.
template <class V, class F>
[[gnu::always_inline]] inline void for_columns(std::int64_t n, const F& f) {
  std::int64_t c = 0;
  for (; c + kLanes<V> <= n; c += kLanes<V>)
#pragma omp simd
    for (int l = 0; l < kLanes<V>; ++l) f(c + l);
  for (; c < n; ++c) f(c);
}

// Returns n rows of a head, each in whole vectors of V. If T is not V, or if the width is not a whole number of
// vectors, copies the rows to `room` and pads each with zeros.
template <class T, class V = compute_t<T>>
Matrix<const V> whole_rows(const T* x, std::int64_t row, std::int64_t n, std::int64_t width, V* room) {
  if constexpr (std::is_same_v<T, V>)
    if (width % kLanes<V> == 0) return {x, row};
  const std::int64_t room_row = padded<V>(width);
  for (std::int64_t r = 0; r < n; ++r) {
    V* to = room + r * room_row;
    const T* from = x + r * row;
    for_columns<V>(width, [=](std::int64_t c) { to[c] = V(from[c]); });
    for (std::int64_t c = width; c < room_row; ++c) to[c] = 0;
  }
  return {room, room_row};
}

// Transposes n rows to [width, n], padded with zeros to whole vectors.
template <class V>
Matrix<const V> transposed(Matrix<const V> rows, std::int64_t n, std::int64_t width, V* room) {
  small_transpose(room, rows.data, rows.row, n, width);
  return {room, padded<V>(n)};
}

// For each of the keys j0 ... j0 + n - 1, finds the first query that sees it. No query sees the lanes that pad the last
// vector, so one comparison handles both the causal mask and the padding.
template <class V>
void first_queries(std::int32_t* first, const AttentionHead& at, std::int64_t j0, std::int64_t n) {
  constexpr std::int32_t kNone = std::numeric_limits<std::int32_t>::max();
  for (std::int64_t j = 0; j < padded<V>(n); ++j) {
    first[j] = j >= n ? kNone : at.causal ? std::int32_t(j0 + j - (at.keys - at.queries)) : 0;
  }
}

// Adds the biases of one query and n keys to their scores q . k. Scores are multiplied by `scale` later, so the biases
// are divided by `scale` here.
template <class T, class V = compute_t<T>>
void add_bias(V* scores, const T* bias, std::int64_t n, double scale) {
  const V factor = V(1 / scale);
  for_columns<V>(n, [=](std::int64_t j) { scores[j] += factor * V(bias[j]); });
}

// Prefetches a row into the cache, for writing if `kWrite`. A head of one block is computed so fast that waiting for
// its rows would matter, so we prefetch them while we compute the previous head. Without this, a bf16 step on Multi30k
// takes 3.7 % longer. The function is always inlined: GCC 12 assumes that a function that only prefetches has no
// effect, and drops calls to it.
template <bool kWrite = false, class T>
[[gnu::always_inline]] inline void fetch_row(const T* x, std::int64_t row, std::int64_t r, std::int64_t rows,
                                             std::int64_t width) {
  constexpr std::int64_t kCacheLine = 64 / sizeof(T);
  if (r >= rows) return;
  for (std::int64_t c = 0; c < width; c += kCacheLine) __builtin_prefetch(x + r * row + c, kWrite);
}
inline bool is_one_block(const AttentionHead& at) { return at.queries <= kBlock && at.keys <= kBlock; }
// Returns the head to compute after this one, or this one if it is the last.
inline AttentionHead next_head(const AttentionShape& s, const AttentionHead& at) {
  return {s, std::min(at.number + 1, s.segments * s.heads - 1)};
}

// The factors z [ATT-3], computed row by row.
template <class V>
class KeepFactors {
 public:
  explicit KeepFactors(const AttentionShape& s) : s_(s) {}

  // Multiplies values[j] by the factor z of element first + j, for j < n <= kBlock.
  void multiply(V* values, std::uint64_t first, std::int64_t n) {
    const std::uint32_t* bits = bits_of(first, n);
    const std::uint32_t drop_below = s_.drop_below;
    const V keep_factor = V(s_.keep_factor);
    for_columns<V>(n, [=](std::int64_t j) { values[j] *= bits[j] >= drop_below ? keep_factor : V(0); });
  }

 private:
  // Returns the bits of n elements. Rows of scores follow each other in the random sequence, so the bits generated for
  // a short row often include those of the next row.
  const std::uint32_t* bits_of(std::uint64_t first, std::int64_t n) {
    static_assert(kBlock + 7 <= kPhiloxElements);
    if (first < begin_ || first + std::uint64_t(n) > end_) {
      begin_ = first / 8 * 8;
      end_ = begin_ + kPhiloxElements;
      philox_bits16(s_.random, begin_, bits_);
    }
    return bits_ + (first - begin_);
  }

  const AttentionShape& s_;
  std::uint64_t begin_ = 0, end_ = 0;
  std::uint32_t bits_[kPhiloxElements];
};

}  // namespace foldgrad::attention_cpu_blocks
