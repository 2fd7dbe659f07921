#include <cmath>

#include "engine/cuda/elementwise.h"
#include "engine/memory.h"
#include "ops/embedding/embedding_kernels.h"

namespace foldgrad {
namespace {

constexpr int kThreads = 128;  // not tuned

// One block per position.
template <class T>
__global__ void forward_kernel(EmbeddingForward<T> p) {
  const std::int64_t m = blockIdx.x, id = p.ids[m];
  const bool known = 0 <= id && id < p.rows;
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x)
    p.y[m * p.columns + c] = T(known ? p.value(id, c) : compute_t<T>(NAN));
}

// The positions of each row are gathered in `order` as on the CPU, except that atomics place them within their row in
// any order. The block that sums a row then sorts them into `sorted`.
template <class T>
struct Buckets {
  EmbeddingBackward<T> p;
  int* ends;            // [rows]: first how many positions each row has, then where they start, then where they end
  int *order, *sorted;  // [positions]
};

template <class T>
struct Count {
  Buckets<T> b;
  __device__ void operator()(std::int64_t m) const {
    if (b.p.counts(b.p.ids[m])) atomicAdd(&b.ends[b.p.ids[m]], 1);
  }
};

template <class T>
struct Place {
  Buckets<T> b;
  __device__ void operator()(std::int64_t m) const {
    if (b.p.counts(b.p.ids[m])) b.order[atomicAdd(&b.ends[b.p.ids[m]], 1)] = int(m);
  }
};

// From counts to starts, by one block: each thread has a chunk of rows, and thread 0 adds up the chunks.
template <class T>
__global__ void starts_kernel(Buckets<T> b) {
  int* starts = dynamic_shared<int>();  // one per thread
  const std::int64_t chunk = (b.p.rows + blockDim.x - 1) / blockDim.x, begin = threadIdx.x * chunk;
  const std::int64_t end = begin + chunk < b.p.rows ? begin + chunk : b.p.rows;
  int total = 0;
  for (std::int64_t v = begin; v < end; ++v) total += b.ends[v];
  starts[threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.x == 0) {
    int sum = 0;
    for (unsigned t = 0; t < blockDim.x; ++t) {
      const int own = starts[t];
      starts[t] = sum;
      sum += own;
    }
  }
  __syncthreads();
  int start = starts[threadIdx.x];
  for (std::int64_t v = begin; v < end; ++v) {
    const int own = b.ends[v];
    b.ends[v] = start;
    start += own;
  }
}

// One block per row. Ranks within a bucket are counted, n^2 comparisons for n positions.
template <class T>
__global__ void sum_kernel(Buckets<T> b) {
  using Value = compute_t<T>;
  const EmbeddingBackward<T>& p = b.p;
  const std::int64_t v = blockIdx.x;
  const int begin = v == 0 ? 0 : b.ends[v - 1], end = b.ends[v];
  for (int i = begin + threadIdx.x; i < end; i += blockDim.x) {
    int rank = begin;
    for (int j = begin; j < end; ++j) rank += b.order[j] < b.order[i];
    b.sorted[rank] = b.order[i];
  }
  __syncthreads();
  if (begin == end && p.dx.mode == GradMode::add) return;
  for (std::int64_t c = threadIdx.x; c < p.columns; c += blockDim.x) {
    Value sum = 0;
    for (int i = begin; i < end; ++i) sum += Value(p.dy[b.sorted[i] * p.columns + c]);
    p.put(v, c, sum);
  }
}

}  // namespace

template <class T>
void embedding_cuda(const EmbeddingForward<T>& p) {
  launch("embedding forward", forward_kernel<T>, {dim3(unsigned(p.positions)), dim3(kThreads)}, p);
}

template <class T>
void embedding_cuda(const EmbeddingBackward<T>& p) {
  if (p.rows == 0) return;
  constexpr int kChunks = 512;  // not tuned
  const auto scratch = memory::allocate(Device::cuda, std::size_t(p.rows + 2 * p.positions) * sizeof(int));
  int* ends = static_cast<int*>(scratch.get());
  const Buckets<T> b{p, ends, ends + p.rows, ends + p.rows + p.positions};
  memory::zero(Device::cuda, ends, std::size_t(p.rows) * sizeof(int));
  elementwise_cuda("embedding backward: count", p.positions, Count<T>{b});
  launch("embedding backward: starts", starts_kernel<T>, {dim3(1), dim3(kChunks), kChunks * sizeof(int)}, b);
  elementwise_cuda("embedding backward: place", p.positions, Place<T>{b});
  launch("embedding backward: sum", sum_kernel<T>, {dim3(unsigned(p.rows)), dim3(kThreads)}, b);
}

FOLDGRAD_INSTANTIATE(embedding_cuda, EmbeddingForward);
FOLDGRAD_INSTANTIATE(embedding_cuda, EmbeddingBackward);

}  // namespace foldgrad
