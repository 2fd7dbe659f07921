#include "engine/cuda/cells.h"
#include "ops/permute/permute_kernels.h"

namespace foldgrad {
namespace {

// Copies N columns of row r of matrix m, beginning with column c. m fits into 32 bits because run() checks that a grid
// can have a block per matrix.
template <class T, int N>
struct CopyRows {
  Permute<T> p;

  __device__ void operator()(std::int64_t m, std::int64_t r, std::int64_t c) const {
    std::int64_t in_x, in_y;
    p.start(unsigned(m), in_x, in_y);
    const Pack<T, N> x = load_pack<N>(p.x + in_x + r * p.row_x + c);
    compute_t<T> y[N];
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e) y[e] = compute_t<T>(x.v[e]);
    put_pack(p.y, in_y + r * p.row_y + c, y);
  }
};

constexpr int kPermuteThreads = 256;  // not tuned

// The side of a tile in elements: 32, or 8 packs.
template <int N>
constexpr int kTile = N == 1 ? 32 : 8 * N;
// The row pitch of a tile is kTile plus one 4-byte word, so that the elements of a column are in different banks.
template <class T, int N>
constexpr int kPitch = kTile<N> + (sizeof(T) < 4 ? 4 / int(sizeof(T)) : 1);

// Uses one block per tile. All divisions are in 32 bits, which suffices because the number of blocks fits into 32 bits.
// Neighbouring threads access neighbouring packs in x and in y; in between, the tile is in shared memory.
template <class T, int N>
__global__ void __launch_bounds__(kPermuteThreads) transpose_kernel(Permute<T> p) {
  constexpr int kSide = kTile<N>, kRows = kPermuteThreads / (kSide / N);
  T* tile = dynamic_shared<T>();  // [kSide columns, kPitch]
  const auto across = unsigned((p.columns + kSide - 1) / kSide), down = unsigned((p.rows + kSide - 1) / kSide);
  const std::int64_t left = std::int64_t(blockIdx.x % across) * kSide,
                     top = std::int64_t(blockIdx.x / across % down) * kSide;
  std::int64_t in_x, in_y;
  p.start(blockIdx.x / across / down, in_x, in_y);
  const int first = int(threadIdx.x) / (kSide / N), along = int(threadIdx.x) % (kSide / N) * N;
  for (int c = first; c < kSide; c += kRows) {
    const bool inside = left + c < p.columns && top + along < p.rows;
    const Pack<T, N> x = load_pack<N>(p.x + in_x + (left + c) * p.column_x + top + along, inside);
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e) tile[c * kPitch<T, N> + along + e] = x.v[e];
  }
  __syncthreads();
  for (int r = first; r < kSide; r += kRows) {
    compute_t<T> y[N];
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e) y[e] = compute_t<T>(tile[(along + e) * kPitch<T, N> + r]);
    put_pack(p.y, in_y + (top + r) * p.row_y + left + along, y, top + r < p.rows && left + along < p.columns);
  }
}

// Returns true if packs fit: runs of contiguous elements in x and in y are whole packs, and so are the strides between
// rows. Then the other strides are, too: x and y are dense, so the strides of y are multiples of `columns`, and those
// of x are multiples of `columns` or, if x is transposed, of `rows`.
template <class T>
bool suits_packs(const Permute<T>& p) {
  constexpr std::int64_t N = kPackSize<T>;
  const bool rows = p.column_x == 1 ? p.row_x % N == 0 : p.rows % N == 0;
  return aligned_for_packs(16, p.x, p.y.data) && p.columns % N == 0 && p.row_y % N == 0 && rows;
}

template <int N, class T>
void run(const Permute<T>& p) {
  if (p.column_x == 1) {
    checked_blocks("permute rows", p.matrices);
    return cells_cuda<N>("permute rows", p.matrices, p.rows, p.columns, CopyRows<T, N>{p});
  }
  const std::int64_t tiles = p.matrices * blocks_for(p.rows, kTile<N>) * blocks_for(p.columns, kTile<N>);
  launch("permute", transpose_kernel<T, N>, {tiles, dim3(kPermuteThreads), kTile<N> * kPitch<T, N> * sizeof(T)}, p);
}

}  // namespace

template <class T>
void permute_cuda(const Permute<T>& p) {
  suits_packs(p) ? run<kPackSize<T>>(p) : run<1>(p);
}

FOLDGRAD_INSTANTIATE(permute_cuda, Permute);

}  // namespace foldgrad
