#include <cmath>

#include "engine/cuda/pack.h"
#include "engine/cuda/reduce.h"
#include "ops/embedding/embedding_kernels.h"

namespace foldgrad {
namespace {

constexpr int kEmbeddingThreads = 128;  // not tuned

// One block per position.
template <class T, int N>
__global__ void __launch_bounds__(kEmbeddingThreads) gather_kernel(EmbeddingForward<T> p) {
  const std::int64_t m = blockIdx.x, id = p.ids[m];
  const bool known = 0 <= id && id < p.rows;
  EmbeddingForward<T> in_pack = p;
  for (std::int64_t c = std::int64_t(threadIdx.x) * N; c < p.columns; c += kEmbeddingThreads * N) {
    const Pack<T, N> x = load_pack<N>(p.x + id * p.columns + c, known);
    in_pack.x = x.v;
    Pack<T, N> y;
    FOLDGRAD_UNROLL
    for (int k = 0; k < N; ++k) y.v[k] = T(known ? in_pack.value(0, k) : compute_t<T>(NAN));
    store_pack(p.y + m * p.columns + c, y);
  }
}

// One block per row of the table and strip of columns. It looks through all ids, and adds up the rows of dy of those
// that are its own, in their order: nothing depends on which thread comes first.
template <class T, int N>
__global__ void __launch_bounds__(kEmbeddingThreads) backward_kernel(EmbeddingBackward<T> p) {
  using Value = compute_t<T>;
  unsigned* chosen = dynamic_shared<unsigned>();  // [kEmbeddingThreads / kWarp]: a bit for each position of a tile
  const std::int64_t v = blockIdx.x, c = (std::int64_t(blockIdx.y) * kEmbeddingThreads + threadIdx.x) * N;
  const std::int64_t positions = p.counts(v) ? p.positions : 0;
  const bool wanted = c < p.columns;
  Value sums[N] = {};
  for (std::int64_t first = 0; first < positions; first += kEmbeddingThreads) {
    const std::int64_t mine = first + threadIdx.x;
    const unsigned lanes = __ballot_sync(0xffffffffu, mine < positions && p.ids[mine] == v);
    __syncthreads();  // the tile before may still be read
    if (threadIdx.x % kWarp == 0) chosen[threadIdx.x / kWarp] = lanes;
    __syncthreads();
    for (int w = 0; w < kEmbeddingThreads / kWarp; ++w)
      for (int lane = 0; lane < kWarp && chosen[w] >> lane != 0; ++lane) {
        if ((chosen[w] >> lane & 1u) == 0) continue;
        const std::int64_t m = first + w * kWarp + lane;
        const Pack<T, N> dy = load_pack<N>(p.dy + m * p.columns + c, wanted);
        FOLDGRAD_UNROLL
        for (int k = 0; k < N; ++k) sums[k] += Value(dy.v[k]);
      }
  }
  FOLDGRAD_UNROLL
  for (int k = 0; k < N; ++k) sums[k] *= p.scale;  // [EMB-2]
  put_pack(p.dx, v * p.columns + c, sums, wanted);
}

template <class T, int N>
void launch_backward(const EmbeddingBackward<T>& p) {
  const std::int64_t strips = blocks_for(p.columns, kEmbeddingThreads * N);
  launch("embedding backward", backward_kernel<T, N>,
         {Blocks(p.rows, strips), dim3(kEmbeddingThreads), kEmbeddingThreads / kWarp * sizeof(unsigned)}, p);
}

}  // namespace

template <class T>
void embedding_cuda(const EmbeddingForward<T>& p) {
  constexpr int N = kPackSize<T>;
  const bool packs = p.columns % N == 0 && aligned_for_packs(N * sizeof(T), p.y, p.x);
  launch("embedding forward", packs ? gather_kernel<T, N> : gather_kernel<T, 1>, {p.positions, dim3(kEmbeddingThreads)},
         p);
}

template <class T>
void embedding_cuda(const EmbeddingBackward<T>& p) {
  constexpr int N = kPackSize<compute_t<T>>;  // so that f32 sums are packs of 16 bytes, too
  if (p.columns % N == 0 && aligned_for_packs(N * sizeof(T), p.dy) && aligned_for_packs(16, p.dx.data))
    launch_backward<T, N>(p);
  else
    launch_backward<T, 1>(p);
}

FOLDGRAD_INSTANTIATE(embedding_cuda, EmbeddingForward);
FOLDGRAD_INSTANTIATE(embedding_cuda, EmbeddingBackward);

}  // namespace foldgrad
