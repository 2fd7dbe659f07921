#include "engine/cuda/matrix.h"
#include "engine/cuda/reduce.h"
#include "ops/positions/positions_kernels.h"

namespace foldgrad {
namespace {

constexpr int kThreads = 128;  // not tuned

// One block per token, which counts the tokens before it anew: a sentence is short, and nothing is kept. In packs of N.
template <class T, int N>
__global__ void forward_kernel(PositionsForward<T> p) {
  int* scratch = dynamic_shared<int>();                                    // one per warp
  const std::int64_t r = blockIdx.x, t = blockIdx.x % unsigned(p.length);  // of which there are more blocks
  int tokens = 0;
  if (p.mask) {
    for (std::int64_t s = threadIdx.x; s <= t; s += blockDim.x) tokens += p.mask[r - t + s] != 0;
    tokens = block_sum(tokens, scratch);
  }
  const std::int64_t position = p.position(r, t, tokens);
  const std::int64_t packs = p.columns / N;
  for (std::int64_t first = 0; first < packs; first += blockDim.x) {
    const std::int64_t c = (first + threadIdx.x) * N;
    const bool wanted = c < p.columns;
    const Pack<T, N> x = load_pack<N>(p.x + r * p.columns + c, wanted);
    const Pack<T, N> row = load_cached_pack<N>(p.table + position * p.columns + c, wanted);
    Pack<T, N> y;
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e) y.v[e] = T(p.sum(x.v[e], row.v[e], position));
    store_pack(p.y + r * p.columns + c, y, wanted);
  }
}

template <class T>
struct Backward {
  PositionsBackward<T> p;

  __device__ void operator()(std::int64_t i, std::int64_t) const { p.dx.put(i, p.value(0, i)); }
  template <class Visit>
  FOLDGRAD_HD void operands(Visit& visit) {
    visit.result(p.dx);
    visit.element(p.dy);
    visit.row(p.mask);
  }
};

}  // namespace

template <class T>
void positions_cuda(const PositionsForward<T>& p) {
  constexpr int N = kPackSize<T>;
  const bool packed = p.columns % N == 0 && aligned_for_packs(16, p.x, p.y, p.table);
  launch("positions forward", packed ? forward_kernel<T, N> : forward_kernel<T, 1>,
         Grid{p.batch * p.length, dim3(kThreads), kThreads / kWarp * sizeof(int)}, p);
}

template <class T>
void positions_cuda(const PositionsBackward<T>& p) {
  matrix_cuda<kPackSize<T>>("positions backward", p.rows, p.columns, Backward<T>{p});
}

FOLDGRAD_INSTANTIATE(positions_cuda, PositionsForward);
FOLDGRAD_INSTANTIATE(positions_cuda, PositionsBackward);

}  // namespace foldgrad
