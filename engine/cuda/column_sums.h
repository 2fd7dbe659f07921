// The CUDA side of engine/cpu/column_sums.h, for the same parameter structs. Rows are shared out over the grid, so that
// the whole GPU works where columns are few, and the sums of the parts are added in their order by a second kernel: the
// same bits on every run and every GPU. For .cu files.
#pragma once
#include "engine/cuda/matrix.h"
#include "engine/cuda/reduce.h"
#include "engine/memory.h"

namespace foldgrad {

constexpr std::int64_t kMostRowParts = 128;  // not tuned
constexpr int kFinishGroups = 8;             // threads per column that add up partial sums

template <class F>
struct ColumnSumParts {
  F f;
  typename F::Value* partials;  // [parts, kSums, columns]
  std::int64_t parts;
};

// Adds the sums that the rows of threads of a block hold, own[N][kSums] each, and writes those of part blockIdx.y.
template <int N, class F>
__device__ void write_part(const ColumnSumParts<F>& p, typename F::Value (&own)[N][F::kSums]) {
  using Value = typename F::Value;
  Value* shared = dynamic_shared<Value>();  // [blockDim.y, kSums, width]
  const int width = N * int(blockDim.x), thread = int(threadIdx.y * blockDim.x + threadIdx.x);
  FOLDGRAD_UNROLL
  for (int e = 0; e < N; ++e) FOLDGRAD_UNROLL
  for (int k = 0; k < F::kSums; ++k)
    shared[(int(threadIdx.y) * F::kSums + k) * width + int(threadIdx.x) * N + e] = own[e][k];
  __syncthreads();
  const std::int64_t first = std::int64_t(blockIdx.x) * width;
  for (int j = thread; j < F::kSums * width; j += kMatrixThreads) {
    const std::int64_t c = first + j % width;
    Value sum = 0;
    for (unsigned y = 0; y < blockDim.y; ++y) sum += shared[int(y) * F::kSums * width + j];
    if (c < p.f.columns) p.partials[(std::int64_t(blockIdx.y) * F::kSums + j / width) * p.f.columns + c] = sum;
  }
}

// One block per strip of columns and part of the rows.
template <int N, class F>
__global__ void __launch_bounds__(kMatrixThreads) column_sum_parts_kernel(ColumnSumParts<F> p) {
  const std::int64_t c = (std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  const bool wanted = c < p.f.columns;
  OperandPacks<N> packs;
  F with_columns = p.f;
  FetchColumns<N> columns{packs, c, wanted};
  with_columns.operands(columns);
  typename F::Value own[N][F::kSums] = {};
  const std::int64_t stride = p.parts * blockDim.y;
  FOLDGRAD_UNROLL_BY_4
  for (std::int64_t r = std::int64_t(blockIdx.y) * blockDim.y + threadIdx.y; r < p.f.rows; r += stride) {
    F f = with_columns;
    FetchElements<N, /*kResults=*/false> fetch{packs, r * p.f.columns + c, r, wanted};
    f.operands(fetch);
    if (wanted) start_pack(f, r * p.f.columns + c);
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e)
      if (wanted) f.add(0, e, own[e]);
  }
  write_part<N>(p, own);
}

// The same for structs that do not name their operands: one column per thread.
template <class F>
__global__ void __launch_bounds__(kMatrixThreads) plain_column_sum_parts_kernel(ColumnSumParts<F> p) {
  const std::int64_t c = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x, stride = p.parts * blockDim.y;
  typename F::Value own[1][F::kSums] = {};
  for (std::int64_t r = std::int64_t(blockIdx.y) * blockDim.y + threadIdx.y; r < p.f.rows && c < p.f.columns;
       r += stride)
    p.f.add(r, c, own[0]);
  write_part<1>(p, own);
}

// One block per 32 columns.
template <class F>
__global__ void finish_column_sums_kernel(ColumnSumParts<F> p) {
  using Value = typename F::Value;
  Value* shared = dynamic_shared<Value>();  // [kFinishGroups, kSums, 32]
  const std::int64_t c = std::int64_t(blockIdx.x) * kWarp + threadIdx.x, columns = p.f.columns;
  Value sums[F::kSums] = {};
  if (c < columns)
    for (std::int64_t part = threadIdx.y; part < p.parts; part += kFinishGroups)
      for (int k = 0; k < F::kSums; ++k) sums[k] += p.partials[(part * F::kSums + k) * columns + c];
  for (int k = 0; k < F::kSums; ++k) shared[(threadIdx.y * F::kSums + k) * kWarp + threadIdx.x] = sums[k];
  __syncthreads();
  if (threadIdx.y != 0 || c >= columns) return;
  for (int g = 1; g < kFinishGroups; ++g)
    for (int k = 0; k < F::kSums; ++k) sums[k] += shared[(g * F::kSums + k) * kWarp + threadIdx.x];
  p.f.put(c, sums);
}

template <int N, class F>
void run_column_sums(const char* name, const F& f, void (*parts_kernel)(ColumnSumParts<F>)) {
  using Value = typename F::Value;
  if (f.columns == 0) return;
  const MatrixThreads threads(f.columns, N);
  const std::int64_t per_block = kMatrixThreads / threads.across * kRowsPerThread;
  const std::int64_t wanted = (f.rows + per_block - 1) / per_block;
  const std::int64_t parts = wanted < kMostRowParts ? wanted : kMostRowParts;
  const auto scratch = memory::allocate(Device::cuda, std::size_t(parts * F::kSums * f.columns) * sizeof(Value));
  const ColumnSumParts<F> p{f, static_cast<Value*>(scratch.get()), parts};
  launch(name, parts_kernel,
         Grid{Blocks(threads.strips, parts), threads.block(), kMatrixThreads * N * F::kSums * sizeof(Value)}, p);
  launch(
      name, finish_column_sums_kernel<F>,
      Grid{blocks_for(f.columns, kWarp), dim3(kWarp, kFinishGroups), kFinishGroups * F::kSums * kWarp * sizeof(Value)},
      p);
}

template <class F>
void column_sums_cuda(const char* name, const F& f) {
  run_column_sums<1>(name, f, plain_column_sum_parts_kernel<F>);
}

// In packs of N, which is 16 bytes of the widest operand. f names its operands (operands.h), and what of a pack add()
// is called with is row 0 and columns 0 ... N - 1.
template <int N, class F>
void packed_column_sums_cuda(const char* name, const F& f) {
  if (f.columns % N == 0 && aligned_operands<N>(f))
    run_column_sums<N>(name, f, column_sum_parts_kernel<N, F>);
  else
    run_column_sums<1>(name, f, column_sum_parts_kernel<1, F>);
}

}  // namespace foldgrad
