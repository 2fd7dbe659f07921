#include <cmath>

#include "engine/cuda/pack.h"
#include "engine/memory.h"
#include "ops/embedding/sorted_positions_cuda.h"

namespace foldgrad {
namespace {

constexpr int kThreads = 128;  // not tuned

// One block per position.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) forward_kernel(EmbeddingForward<T> p) {
  const std::int64_t m = blockIdx.x, id = p.ids[m];
  const bool known = 0 <= id && id < p.rows;
  EmbeddingForward<T> in_pack = p;
  for (std::int64_t c = std::int64_t(threadIdx.x) * N; c < p.columns; c += kThreads * N) {
    const Pack<T, N> x = load_pack<N>(p.x + id * p.columns + c, known);
    in_pack.x = x.v;
    Pack<T, N> y;
    FOLDGRAD_UNROLL
    for (int k = 0; k < N; ++k) y.v[k] = T(known ? in_pack.value(0, k) : compute_t<T>(NAN));
    store_pack(p.y + m * p.columns + c, y);
  }
}

// Sorted positions are summed in segments, so that the row that most of them chose keeps no thread busier than others.
// Where a row crosses the end of a segment, its sums meanwhile lie in `parts`, and are added in order by a second
// kernel.
constexpr int kSegment = 16;    // not tuned
constexpr int kInFlight = 4;    // rows of dy that a thread waits for at once
constexpr int kJoinGroups = 8;  // warps that add up parts

template <class T>
struct Segments {
  using Value = compute_t<T>;

  EmbeddingBackward<T> p;
  const int* order;  // [positions], sorted
  Value* parts;      // [2, segments, columns]: sums of a row begun in an earlier segment, of one continued in the next
  std::int64_t segments;

  __device__ std::int64_t row(std::int64_t i) const { return sorted_positions::row_of(p, order[i]); }
  __device__ bool same_row(std::int64_t i, std::int64_t v) const { return 0 <= i && i < p.positions && row(i) == v; }
  __device__ Value* earlier(std::int64_t segment) const { return parts + segment * p.columns; }
  __device__ Value* further(std::int64_t segment) const { return parts + (segments + segment) * p.columns; }
};

// `dx` is either of the places that p.dx may have.
template <class T, class D, int N>
__device__ __forceinline__ void put_columns(const EmbeddingBackward<T>& p, D* ParameterGradOut<T>::*dx, std::int64_t v,
                                            std::int64_t c, const Pack<compute_t<T>, N>& sums, bool wanted) {
  D* to = p.dx.*dx + v * p.columns + c;
  Pack<D, N> pack = load_own_pack<N>(to, wanted && p.dx.mode == GradMode::add);
  EmbeddingBackward<T> in_pack = p;
  in_pack.dx.*dx = pack.v;
  FOLDGRAD_UNROLL
  for (int k = 0; k < N; ++k) in_pack.put(0, k, sums.v[k]);
  store_pack(to, pack, wanted);
}
template <class T, int N>
__device__ __forceinline__ void put_columns(const EmbeddingBackward<T>& p, std::int64_t v, std::int64_t c,
                                            const Pack<compute_t<T>, N>& sums, bool wanted) {
  if (p.dx.exact)
    put_columns(p, &ParameterGradOut<T>::exact, v, c, sums, wanted);
  else
    put_columns(p, &ParameterGradOut<T>::data, v, c, sums, wanted);
}

// The sums over the sorted positions begin ... end - 1, all of row v, of this block's segment.
template <class T, int N>
__device__ __forceinline__ void put_run(const Segments<T>& s, std::int64_t v, std::int64_t begin, std::int64_t end,
                                        std::int64_t c, const Pack<compute_t<T>, N>& sums) {
  const bool wanted = c < s.p.columns;
  if (v == s.p.rows) return;
  if (begin % kSegment == 0 && s.same_row(begin - 1, v))
    store_pack(s.earlier(blockIdx.x) + c, sums, wanted);
  else if (end % kSegment == 0 && s.same_row(end, v))
    store_pack(s.further(blockIdx.x) + c, sums, wanted);
  else
    put_columns(s.p, v, c, sums, wanted);
}

// One block per segment and strip of columns.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) sum_kernel(Segments<T> s) {
  using Value = compute_t<T>;
  const std::int64_t begin = std::int64_t(blockIdx.x) * kSegment;
  const std::int64_t end = begin + kSegment < s.p.positions ? begin + kSegment : s.p.positions;
  const std::int64_t c = (std::int64_t(blockIdx.y) * blockDim.x + threadIdx.x) * N;
  std::int64_t row = s.row(begin), first = begin;
  Pack<Value, N> sums = {};
  for (std::int64_t i = begin; i < end; i += kInFlight) {
    std::int64_t rows[kInFlight];
    Pack<T, N> dy[kInFlight];
    FOLDGRAD_UNROLL
    for (int j = 0; j < kInFlight; ++j) {
      const int m = s.order[i + j < end ? i + j : begin];
      rows[j] = sorted_positions::row_of(s.p, m);
      dy[j] = load_pack<N>(s.p.dy + m * s.p.columns + c, i + j < end && rows[j] < s.p.rows && c < s.p.columns);
    }
    FOLDGRAD_UNROLL
    for (int j = 0; j < kInFlight; ++j) {
      if (i + j >= end) continue;
      if (rows[j] != row) {
        put_run(s, row, first, i + j, c, sums);
        row = rows[j];
        first = i + j;
        sums = {};
      }
      FOLDGRAD_UNROLL
      for (int k = 0; k < N; ++k) sums.v[k] += Value(dy[j].v[k]);
    }
  }
  put_run(s, row, first, end, c, sums);
}

// One block per strip of columns and segment whose last row continues in the next segment; the other blocks return.
template <class T, int N>
__global__ void __launch_bounds__(kWarp* kJoinGroups) join_kernel(Segments<T> s) {
  using Value = compute_t<T>;
  Pack<Value, N>* groups = dynamic_shared<Pack<Value, N>>();  // [kJoinGroups, kWarp]
  const std::int64_t begin = std::int64_t(blockIdx.x) * kSegment, end = begin + kSegment;
  if (end >= s.p.positions) return;
  const std::int64_t row = s.row(end);
  if (row == s.p.rows || !s.same_row(end - 1, row)) return;
  if (s.same_row(begin, row) && s.same_row(begin - 1, row)) return;

  const std::int64_t c = (std::int64_t(blockIdx.y) * kWarp + threadIdx.x) * N;
  const bool wanted = c < s.p.columns;
  Pack<Value, N> sums = load_own_pack<N>(s.further(blockIdx.x) + c, wanted && threadIdx.y == 0);
  for (std::int64_t g = blockIdx.x + 1 + threadIdx.y; s.same_row(g * kSegment, row); g += kJoinGroups) {
    const Pack<Value, N> part = load_own_pack<N>(s.earlier(g) + c, wanted);
    FOLDGRAD_UNROLL
    for (int k = 0; k < N; ++k) sums.v[k] += part.v[k];
  }
  groups[threadIdx.y * kWarp + threadIdx.x] = sums;
  __syncthreads();
  if (threadIdx.y != 0) return;
  for (int y = 1; y < kJoinGroups; ++y) {
    FOLDGRAD_UNROLL
    for (int k = 0; k < N; ++k) sums.v[k] += groups[y * kWarp + threadIdx.x].v[k];
  }
  put_columns(s.p, row, c, sums, wanted);
}

template <class T, int N>
void sum_segments(const Segments<T>& s) {
  const unsigned packs = blocks_for(s.p.columns, N), warps = (packs + kWarp - 1) / kWarp;
  const unsigned across = warps * kWarp < kThreads ? warps * kWarp : kThreads;
  launch("embedding backward: sum", sum_kernel<T, N>, {Blocks(s.segments, (packs + across - 1) / across), dim3(across)},
         s);
  launch("embedding backward: join", join_kernel<T, N>,
         {Blocks(s.segments, warps), dim3(kWarp, kJoinGroups), kJoinGroups * kWarp * sizeof(Pack<compute_t<T>, N>)}, s);
}

}  // namespace

template <class T>
void embedding_cuda(const EmbeddingForward<T>& p) {
  constexpr int N = kPackSize<T>;
  const bool packs = p.columns % N == 0 && aligned_for_packs(N * sizeof(T), p.y, p.x);
  launch("embedding forward", packs ? forward_kernel<T, N> : forward_kernel<T, 1>, {p.positions, dim3(kThreads)}, p);
}

template <class T>
void embedding_cuda(const EmbeddingBackward<T>& p) {
  using Value = compute_t<T>;
  if (p.dx.mode == GradMode::set)
    p.dx.exact  // rows that nobody chose
        ? memory::zero(Device::cuda, p.dx.exact, std::size_t(p.rows * p.columns) * sizeof(Value))
        : memory::zero(Device::cuda, p.dx.data, std::size_t(p.rows * p.columns) * sizeof(T));
  if (p.positions == 0 || p.columns == 0) return;
  const auto scratch = memory::allocate(Device::cuda, sorted_positions::scratch_size(p) * sizeof(int));
  const int* order = sorted_positions::sort(p, static_cast<int*>(scratch.get()));
  const std::int64_t segments = (p.positions + kSegment - 1) / kSegment;
  const auto parts = memory::allocate(Device::cuda, std::size_t(2 * segments * p.columns) * sizeof(Value));
  const Segments<T> s{p, order, static_cast<Value*>(parts.get()), segments};
  constexpr int N = kPackSize<Value>;  // in which the parts are packs of 16 bytes
  if (p.columns % N == 0 && aligned_for_packs(N * sizeof(T), p.dx.data, p.dy) && aligned_for_packs(16, p.dx.exact))
    sum_segments<T, N>(s);
  else
    sum_segments<T, 1>(s);
}

FOLDGRAD_INSTANTIATE(embedding_cuda, EmbeddingForward);
FOLDGRAD_INSTANTIATE(embedding_cuda, EmbeddingBackward);

}  // namespace foldgrad
