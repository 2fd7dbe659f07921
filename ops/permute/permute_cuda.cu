#include "engine/cuda/reduce.h"
#include "ops/permute/permute_kernels.h"

namespace foldgrad {
namespace {

constexpr int kTile = kWarp, kThreadRows = 8;  // not tuned
constexpr int kPitch = kTile + 1;              // one more, so that a column of the tile lies in different banks

// One block per tile, and so all that is divided fits into 32 bits, as the number of blocks does. Neighbouring threads
// touch neighbours in x and in y; in between, a tile to be transposed lies in shared memory.
template <class T>
__global__ void permute_kernel(Permute<T> p) {
  T* tile = dynamic_shared<T>();  // [kTile columns, kPitch]
  const auto across = unsigned((p.columns + kTile - 1) / kTile), down = unsigned((p.rows + kTile - 1) / kTile);
  const std::int64_t left = std::int64_t(blockIdx.x % across) * kTile,
                     top = std::int64_t(blockIdx.x / across % down) * kTile;
  std::int64_t in_x, in_y;
  p.start(blockIdx.x / across / down, in_x, in_y);
  const bool transpose = p.column_x != 1;
  if (transpose) {
    for (int c = threadIdx.y; c < kTile; c += kThreadRows)
      if (left + c < p.columns && top + threadIdx.x < p.rows)
        tile[c * kPitch + threadIdx.x] = p.x[in_x + (left + c) * p.column_x + top + threadIdx.x];
  }
  __syncthreads();
  const std::int64_t c = left + threadIdx.x;
  for (int r = threadIdx.y; r < kTile; r += kThreadRows)
    if (c < p.columns && top + r < p.rows)
      p.y.put(in_y + (top + r) * p.row_y + c,
              transpose ? tile[threadIdx.x * kPitch + r] : p.x[in_x + (top + r) * p.row_x + c]);
}

}  // namespace

template <class T>
void permute_cuda(const Permute<T>& p) {
  const std::int64_t tiles = p.matrices * ((p.rows + kTile - 1) / kTile) * ((p.columns + kTile - 1) / kTile);
  launch("permute", permute_kernel<T>, {tiles, dim3(kTile, kThreadRows), kTile * kPitch * sizeof(T)}, p);
}

FOLDGRAD_INSTANTIATE(permute_cuda, Permute);

}  // namespace foldgrad
