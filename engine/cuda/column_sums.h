// CUDA loops for sums over the rows of a matrix. engine/cpu/column_sums.h describes their parameter structs. The grid
// splits the rows into parts, so that even a few columns occupy the whole GPU. A second kernel adds the sums of the
// parts in order, so results are bit-identical on every run and every GPU. This header is for .cu files.
#pragma once
#include "engine/cuda/elementwise.h"
#include "engine/cuda/reduce.h"
#include "engine/memory.h"

namespace foldgrad {

constexpr std::int64_t kMostRowParts = 128;  // not tuned
constexpr int kFinishGroups = 8;             // number of threads that add up the partial sums of a column

template <class F>
struct ColumnSumParts {
  F f;
  typename F::Value* partials;  // [parts, kSums, columns]
  std::int64_t parts;
};

// Adds up the sums of a block's threads in shared memory. Each thread has K sums for each of its N columns, own[N][K].
// Neighbouring threads store to neighbouring addresses, and neighbouring columns are in different banks.
template <int N, int K, class Value>
class SumsOfThreads {
  static constexpr int kPitch = kMatrixThreads + kBanks<Value> / N;

 public:
  static constexpr std::size_t kBytes = sizeof(Value) * K * N * kPitch;

  template <class Own>
  __device__ explicit SumsOfThreads(const Own (&own)[N][K]) : shared_(shared_array<Value>()) {
    __syncthreads();  // threads may still read earlier sums
    const int thread = int(threadIdx.y * blockDim.x + threadIdx.x);
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e) {
      FOLDGRAD_UNROLL
      for (int k = 0; k < K; ++k) shared_[(k * N + e) * kPitch + thread] = Value(own[e][k]);
    }
    __syncthreads();
  }
  // Returns sum k of column `column` of the strip. Adds one row of threads after another.
  __device__ Value total(int k, int column) const {
    const int first = (k * N + column % N) * kPitch + column / N;
    Value sum = 0;
    for (int y = 0; y < int(blockDim.y); ++y) sum += shared_[first + y * int(blockDim.x)];
    return sum;
  }

 private:
  SharedArray<Value> shared_;
};

// Adds up the sums of a block's threads, and writes the totals as part blockIdx.y.
template <int N, class F>
__device__ void write_part(const ColumnSumParts<F>& p, const typename F::Value (&own)[N][F::kSums]) {
  const SumsOfThreads<N, F::kSums, typename F::Value> sums(own);
  const int width = N * int(blockDim.x);
  for (int j = int(threadIdx.y * blockDim.x + threadIdx.x); j < F::kSums * width; j += kMatrixThreads) {
    const std::int64_t c = std::int64_t(blockIdx.x) * width + j % width;
    if (c < p.f.columns)
      p.partials[(std::int64_t(blockIdx.y) * F::kSums + j / width) * p.f.columns + c] =
          sums.total(j / width, j % width);
  }
}

// Computes partial column sums, with one block for each strip of columns and each part of the rows. With kElements,
// also runs f(i, c) for every element in the same pass.
template <int N, bool kElements, class F>
__global__ void __launch_bounds__(kMatrixThreads, 1) column_sum_parts_kernel(ColumnSumParts<F> p) {
  const std::int64_t c = (std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  const bool wanted = c < p.f.columns;
  OperandPacks<N> packs;
  const F with_columns = visited(p.f, FetchColumns<N>{{packs}, c, wanted});
  typename F::Value own[N][F::kSums] = {};
  const std::int64_t stride = p.parts * blockDim.y;
  FOLDGRAD_UNROLL_BY_4
  for (std::int64_t r = std::int64_t(blockIdx.y) * blockDim.y + threadIdx.y; r < p.f.rows; r += stride) {
    const std::int64_t i = r * p.f.columns + c;
    F f = visited(with_columns, FetchElements<N, kElements>{{packs}, i, r, wanted});
    if (wanted) start_elements(f, i, r);
    const PackBits<F> bits(f, i);
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e)
      if (wanted) add_terms(f, bits, 0, e, own[e]);
    if constexpr (kElements) {
      FOLDGRAD_UNROLL
      for (int e = 0; e < N && wanted; ++e) run_element(f, bits, e, std::int64_t(e));
      visited(p.f, StoreResults<N>{{packs}, i, wanted});
    }
  }
  write_part<N>(p, own);
}

// Adds the sums of all parts. Uses one block of [kFinishGroups, 32] threads for every 32 columns.
template <class F>
__global__ void finish_column_sums_kernel(ColumnSumParts<F> p) {
  using Value = typename F::Value;
  constexpr int K = F::kSums;
  const SharedArray<Value> shared = shared_array<Value>();  // [kFinishGroups, K, 32]
  Value sums[K] = {};
  const std::int64_t c = std::int64_t(blockIdx.x) * kWarp + threadIdx.x, columns = p.f.columns;
  if (c < columns)
    for (std::int64_t part = threadIdx.y; part < p.parts; part += kFinishGroups)
      for (int k = 0; k < K; ++k) sums[k] += p.partials[(part * K + k) * columns + c];
  for (int k = 0; k < K; ++k) shared[(threadIdx.y * K + k) * kWarp + threadIdx.x] = sums[k];
  __syncthreads();
  if (threadIdx.y != 0 || c >= columns) return;
  for (int g = 1; g < kFinishGroups; ++g)
    for (int k = 0; k < K; ++k) sums[k] += shared[(g * K + k) * kWarp + threadIdx.x];
  put_column_sums(p.f, c, sums);
}

// Calls launch_parts(p), which must compute the sums of `parts` parts of the rows. Then adds these partial sums.
template <class F, class LaunchParts>
void sums_of_parts(const char* name, const F& f, std::int64_t parts, const LaunchParts& launch_parts) {
  using Value = typename F::Value;
  const std::shared_ptr<void> scratch =
      memory::allocate(Device::cuda, std::size_t(parts * F::kSums * f.columns) * sizeof(Value));
  const ColumnSumParts<F> p{f, static_cast<Value*>(scratch.get()), parts};
  launch_parts(p);
  const std::size_t shared = kFinishGroups * F::kSums * kWarp * sizeof(Value);
  launch(name, finish_column_sums_kernel<F>, Grid{blocks_for(f.columns, kWarp), dim3(kWarp, kFinishGroups), shared}, p);
}

template <int N, class F>
void launch_column_sums(const char* name, const F& f, void (*parts_kernel)(ColumnSumParts<F>)) {
  if (f.columns == 0) return;
  const MatrixThreads threads(f.columns, N);
  const std::int64_t per_block = kMatrixThreads / threads.across * kRowsPerThread;
  const std::int64_t parts = std::min(blocks_for(f.rows, per_block), kMostRowParts);
  sums_of_parts(name, f, parts, [&](const ColumnSumParts<F>& p) {
    constexpr std::size_t kShared = SumsOfThreads<N, F::kSums, typename F::Value>::kBytes;
    launch(name, parts_kernel, Grid{Blocks(threads.strips, parts), threads.block(), kShared}, p);
  });
}

// Computes the sums in packs of 16 bytes of the element type. f must name its operands (operands.h). For every pack,
// add() receives row 0 and columns 0 ... N - 1. With kElements, the same pass also runs f(i, c) for every element.
template <bool kElements, class F>
void run_column_sums(const F& f) {
  constexpr int N = kPackOf<F>;
  in_packs<N>(f) ? launch_column_sums<N>(F::kName, f, column_sum_parts_kernel<N, kElements, F>)
                 : launch_column_sums<1>(F::kName, f, column_sum_parts_kernel<1, kElements, F>);
}

template <class F>
void column_sums_cuda(const F& f) {
  run_column_sums</*kElements=*/false>(f);
}

// Computes elements and sums in one pass, which loads their common operands once. Computes only the sums if the
// elements are not wanted. If only the elements are wanted, the sums are computed too; this does not occur in training.
template <class F>
void elements_and_column_sums_cuda(const F& f) {
  if (f.target())
    run_column_sums</*kElements=*/true>(f);
  else if (wants_column_sums(f))
    run_column_sums</*kElements=*/false>(f);
}

}  // namespace foldgrad
