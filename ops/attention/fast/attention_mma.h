// Attention with tensor cores, for .cu files: tiles in shared memory, and products in which each warp owns 16 rows.
//
// A warp keeps its results in registers as 16 x 8 fragments (engine/cuda/tensor_core.h). A lane holds the elements of a
// fragment in rows lane / 4 (called a = 0 below) and lane / 4 + 8 (a = 1), and in columns lane % 4 * 2 (c = 0) and lane
// % 4 * 2 + 1 (c = 1). The four lanes of a row are a quad.
#pragma once
#include <type_traits>

#include "engine/cuda/async_copy.h"
#include "engine/cuda/pack.h"
#include "engine/cuda/reduce.h"
#include "engine/cuda/tensor_core.h"
#include "ops/attention/attention_kernels.h"

namespace foldgrad {

// Products multiply bf16 and accumulate in float. Unlike the plain kernels, these kernels round p and ds to bf16 first.
void attention_mma_cuda(const AttentionForward<bf16>& p);
void attention_mma_cuda(const AttentionBackward<bf16>& p);

}  // namespace foldgrad

namespace foldgrad::attention_mma {

constexpr int kWarpRows = 16;
constexpr float kLog2e = 1.44269504f;  // we use powers of 2, because the GPU has an instruction for them

__device__ inline int lane() { return int(threadIdx.x) % kWarp; }
__device__ inline int warp() { return int(threadIdx.x) / kWarp; }
__device__ inline int warps() { return int(blockDim.x) / kWarp; }
__device__ inline int row_of(int a) { return lane() / 4 + 8 * a; }
__device__ inline int column_of(int c) { return lane() % 4 * 2 + c; }
__device__ inline int least(int a, int b) { return a < b ? a : b; }
__device__ inline int blocks_of(std::int64_t n, int rows) { return int((n + rows - 1) / rows); }
// Returns n rounded up to whole fragments.
__device__ inline int whole_fragments(int n) { return (n + kWarpRows - 1) / kWarpRows * kWarpRows; }

// Returns 2^x with a relative error of at most 2^-22.
__device__ __forceinline__ float fast_exp2(float x) {
#ifdef __CUDACC__
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
#else
  return std::exp2(x);
#endif
}

template <class Combine>
__device__ float quad_reduce(float v, Combine combine) {
  v = combine(v, __shfl_xor_sync(0xffffffffu, v, 1));
  return combine(v, __shfl_xor_sync(0xffffffffu, v, 2));
}

// Rows of kWidth numbers in shared memory, in chunks of 16 bytes. ldmatrix reads one chunk from each of 8 neighbouring
// rows at once; the order of chunks changes from row to row, so that these 8 chunks are in different banks.
template <int kWidth>
struct Tile {
  static constexpr int kChunks = kWidth / 8;
  static constexpr int kRowsOfBanks = kChunks < 8 ? 8 / kChunks : 1;  // number of rows that fill all banks
  static constexpr int kPlaces = kChunks < 8 ? kChunks : 8;
  bf16* data;

  __device__ bf16* chunk(int row, int c) const { return data + row * kWidth + (c ^ row / kRowsOfBanks % kPlaces) * 8; }
  // Starts copying `count` rows, and sets the remaining rows, up to `rows`, to zeros.
  __device__ void load(const bf16* from, std::int64_t stride, int count, int rows) const {
    FOLDGRAD_UNROLL_BY_2
    for (int e = int(threadIdx.x); e < rows * kChunks; e += int(blockDim.x)) {
      const int row = e / kChunks, c = e % kChunks;
      const bool inside = row < count;
      async_copy16(chunk(row, c), from + (inside ? row * stride : 0) + c * 8, inside);
    }
  }
  __device__ void load(const bf16* from, std::int64_t stride, int count) const {
    load(from, stride, count, whole_fragments(count));
  }
  // Returns the address that this lane passes to ldmatrix for the 16 rows at `row` and the two chunks at `c`: a
  // fragment A or, transposed, two fragments B.
  __device__ const bf16* rows_first(int row, int c) const { return chunk(row + lane() % 16, c + lane() / 16); }
  // Returns the address for two fragments B whose columns are rows of this tile or, transposed, for a fragment A.
  __device__ const bf16* columns_first(int row, int c) const {
    return chunk(row + lane() / 16 * 8 + lane() % 8, c + lane() / 8 % 2);
  }
};

// The `count` rows of a head in global memory, `stride` elements apart.
struct Rows {
  const bf16* data;
  std::int64_t stride;
  int count;
};

// Tiles of two operands, kRows rows each. While a kernel computes on one pair of tiles, it loads the next pair.
template <int kWidth, int kRows, int kStages>
struct Stages {
  bf16* data;

  __device__ Tile<kWidth> first(int t) const { return Tile<kWidth>{data + t % kStages * 2 * kRows * kWidth}; }
  __device__ Tile<kWidth> second(int t) const { return Tile<kWidth>{first(t).data + kRows * kWidth}; }
  // Starts copying pair t of tiles, and commits the copies as one group. The group is empty if there is no pair t.
  __device__ void load(int t, const Rows& a, const Rows& b) const {
    const int begin = t * kRows;
    if (begin < a.count) {
      first(t).load(a.data + begin * a.stride, a.stride, least(a.count - begin, kRows));
      second(t).load(b.data + begin * b.stride, b.stride, least(b.count - begin, kRows));
    }
    async_commit();
  }
};

// Computes products = A B^T. A is the 16 rows of a that begin at `row`; B is the first `columns` rows of b. The
// products in all other columns become zero.
template <int kWidth, int kFragments>
__device__ void multiply_rows(FragmentC (&products)[kFragments], const Tile<kWidth>& a, int row, const Tile<kWidth>& b,
                              int columns) {
  FOLDGRAD_UNROLL
  for (int n = 0; n < kFragments; ++n) products[n] = FragmentC{};
  FOLDGRAD_UNROLL_BY_2
  for (int k = 0; k < kWidth / 16; ++k) {
    FragmentA left;
    load_matrices(left.r, a.rows_first(row, 2 * k));
    FOLDGRAD_UNROLL
    for (int n = 0; n < kFragments; n += 2) {
      if (8 * n < columns) {
        std::uint32_t right[4];
        load_matrices(right, b.columns_first(8 * n, 2 * k));
        mma(products[n], left, FragmentB{{right[0], right[1]}});
        mma(products[n + 1], left, FragmentB{{right[2], right[3]}});
      }
    }
  }
}

// Adds A B to `sums`. A is [16, 16]; B is the 16 rows of b that begin at `row`, in the chunks that begin at `c`.
template <int kFragments, int kWidth>
__device__ void add_product(FragmentC (&sums)[kFragments], const FragmentA& a, const Tile<kWidth>& b, int row, int c) {
  FOLDGRAD_UNROLL
  for (int n = 0; n < kFragments; n += 2) {
    std::uint32_t right[4];
    load_matrices_transposed(right, b.rows_first(row, c + n));
    mma(sums[n], a, FragmentB{{right[0], right[1]}});
    mma(sums[n + 1], a, FragmentB{{right[2], right[3]}});
  }
}

// Adds W B to `sums`. W [16, 8 * kFragments], the weights, is rounded to bf16; B is the first `rows` rows of b.
template <int kWidth, int kFragments>
__device__ void add_weighted_rows(FragmentC (&sums)[kWidth / 8], const FragmentC (&weights)[kFragments],
                                  const Tile<kWidth>& b, int rows) {
  FOLDGRAD_UNROLL
  for (int n = 0; n < kFragments; n += 2) {
    if (8 * n < rows) {
      const FragmentC &w0 = weights[n], &w1 = weights[n + 1];
      const FragmentA a{{pack_bf16(w0.r[0], w0.r[1]), pack_bf16(w0.r[2], w0.r[3]), pack_bf16(w1.r[0], w1.r[1]),
                         pack_bf16(w1.r[2], w1.r[3])}};
      add_product(sums, a, b, 8 * n, 0);
    }
  }
}

// One bit for each of a row's 64 columns.
struct RowBits {
  std::uint32_t words[2];

  __device__ bool at(int fragment, int c) const { return words[fragment / 4] >> (fragment % 4 * 8 + column_of(c)) & 1; }
};

__device__ inline std::uint32_t first_bits(int n) { return n <= 0 ? 0 : n >= 32 ? 0xffffffffu : (1u << n) - 1; }

// Finds which of the 64 keys from j0 this lane's two queries see. The warp's 16 queries begin at i0.
__device__ inline void find_seen(RowBits (&seen)[2], const AttentionHead& at, int i0, int j0) {
  FOLDGRAD_UNROLL
  for (int a = 0; a < 2; ++a) {
    const int visible = least(at.visible(i0 + row_of(a)) - j0, 64);
    FOLDGRAD_UNROLL
    for (int w = 0; w < 2; ++w) seen[a].words[w] = first_bits(visible - 32 * w);
  }
}

// Returns 8 * kBlocks bits; bit k is set if element `element` + k is kept. A block of random numbers covers 8 elements.
// If `element` is not the first of its block, we generate one more block.
template <int kBlocks>
__device__ std::uint32_t keep_bits(const AttentionShape& s, std::uint64_t element) {
  const int skipped = int(element % 8), blocks = skipped ? kBlocks + 1 : kBlocks;
  std::uint64_t bits = 0;
  for (int b = 0; b < blocks; ++b) {
    const PhiloxWords words = s.random.block(element / 8 + std::uint64_t(b));
    std::uint32_t kept = 0;
    FOLDGRAD_UNROLL
    for (int k = 0; k < 8; ++k) kept |= std::uint32_t(Random::half(words, k) >= s.drop_below) << k;
    bits |= std::uint64_t(kept) << (8 * b);
  }
  return std::uint32_t(bits >> skipped);
}

// Finds the keys that dropout keeps for the two queries of find_seen(). Each lane computes half a row for its warp.
__device__ inline void find_kept(RowBits (&kept)[2], const AttentionShape& s, const AttentionHead& at, int i0, int j0) {
  const std::uint64_t element = at.random_element(i0 + lane() / 2) + std::uint64_t(j0 + lane() % 2 * 32);
  const std::uint32_t mine = s.drop_below == 0 ? 0xffffffffu : keep_bits<4>(s, element);
  FOLDGRAD_UNROLL
  for (int a = 0; a < 2; ++a) {
    FOLDGRAD_UNROLL
    for (int w = 0; w < 2; ++w) kept[a].words[w] = __shfl_sync(0xffffffffu, mine, 2 * row_of(a) + w);
  }
}

// Stores two adjacent numbers in shared memory with one access.
__device__ __forceinline__ void store_pair(bf16* to, float lower, float upper) {
#ifdef __CUDACC__
  *reinterpret_cast<std::uint32_t*>(to) = pack_bf16(lower, upper);
#else
  to[0] = bf16(lower);
  to[1] = bf16(upper);
#endif
}

// Exchanges one of two numbers with lane (own lane XOR distance): the lower lane keeps `first`, the upper one `second`.
__device__ __forceinline__ void exchange(float& first, float& second, int distance) {
  const bool upper = lane() & distance;
  const float got = __shfl_xor_sync(0xffffffffu, upper ? first : second, distance);
  if (upper)
    first = got;
  else
    second = got;
}

// Calls put(row, column, values, wanted) for 8 adjacent columns at a time, so that put() can store 16 bytes; `wanted`
// is true in the first `rows` rows. At first, each lane of a quad has two numbers of a row in each of four fragments;
// after the exchanges, it has all eight numbers of the row in one of these fragments.
template <int kFragments, class Put>
__device__ void for_packs(const FragmentC (&sums)[kFragments], int rows, const Put& put) {
  FOLDGRAD_UNROLL
  for (int n = 0; n < kFragments; n += 4) {
    FOLDGRAD_UNROLL
    for (int a = 0; a < 2; ++a) {
      Pack<float, 8> values;
      FOLDGRAD_UNROLL
      for (int c = 0; c < 2; ++c) {
        float v[4];
        FOLDGRAD_UNROLL
        for (int i = 0; i < 4; ++i) v[i] = sums[n + i].r[2 * a + c];
        exchange(v[0], v[1], 1);
        exchange(v[2], v[3], 1);
        exchange(v[0], v[2], 2);
        exchange(v[1], v[3], 2);
        FOLDGRAD_UNROLL
        for (int i = 0; i < 4; ++i) values.v[2 * i + c] = v[i];
      }
      put(row_of(a), 8 * (n + lane() % 4), values, row_of(a) < rows);
    }
  }
}

// Calls f with `width` as a compile-time constant.
template <class F>
void with_width(std::int64_t width, const F& f) {
  if (width == 32) return f(std::integral_constant<int, 32>());
  if (width == 64) return f(std::integral_constant<int, 64>());
  f(std::integral_constant<int, 128>());
}

// Returns the number of tile pairs that are in shared memory at once, including those that are still being loaded.
inline int stages_for(std::int64_t tiles, int most) { return int(tiles < most ? tiles : most); }

// Constants of kernels whose blocks own queries of one head, 16 per warp, and loop over tiles of the head's keys; not
// tuned.
constexpr int kQueryWarps = 4;  // largest number of warps in a block
constexpr int kKeys = 64;       // keys per tile
constexpr int kKeyStages = 2;

// Launches a kernel whose blocks own queries. `name` and `kernel` are as for launch(); `row_tiles` is the number of
// tiles in shared memory with one row per query of the block.
template <int kWidth, class P>
void launch_over_queries(const char* name, void (*kernel)(P), int row_tiles, const P& p) {
  const AttentionShape& s = p.shape;
  const std::int64_t needed = blocks_for(s.longest_queries, kWarpRows);
  if (needed == 0) return;
  const unsigned warps = needed < kQueryWarps ? unsigned(needed) : kQueryWarps;
  const int rows = int(warps) * kWarpRows, stages = stages_for(blocks_for(s.longest_keys, kKeys), kKeyStages);
  const Grid grid{s.segments * s.heads * blocks_for(s.longest_queries, rows), dim3(warps * kWarp),
                  (row_tiles * rows + stages * 2 * kKeys) * kWidth * sizeof(bf16)};
  launch(name, kernel, grid, p);
}

}  // namespace foldgrad::attention_mma
