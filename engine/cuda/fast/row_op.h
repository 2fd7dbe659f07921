// Row operations (engine/cuda/row_op.h) that keep a row in the registers of a warp or a block. Every element is loaded
// once, in packs of 16 bytes, and all steps work on registers. This header is for .cu files.
#pragma once
#include "engine/cuda/row_op.h"

namespace foldgrad {

constexpr int kWarpsPerBlock = 4;  // warps per block if each warp processes its own row; not tuned
// Number of threads in a block that processes one row; not tuned. With more threads, each would have fewer registers.
constexpr int kMiddleRowThreads = 512;
template <class T>
constexpr int kLongRowThreads = sizeof(T) == 8 ? 512 : 1024;
// The largest number of elements of one row that a thread keeps in registers. Even for two rows, x and dy, a thread
// needs fewer than 128 registers.
template <class T>
constexpr int kMostRowNumbers = sizeof(T) == 8 ? 16 : 32;

constexpr int kRowSumWarps = 8;                 // warps per block of row_sums_kernel; not tuned
constexpr std::int64_t kMostRowSumParts = 256;  // largest number of blocks of row_sums_kernel; not tuned

template <class T>
T element_type(T*);
template <class T>
T element_type(const GradOut<T>&);
template <class F>
using ElementOf = decltype(element_type(std::declval<const F&>().target()));

// A thread's share of a row that kThreads threads keep together: K packs of N elements. Pack k of thread t begins at
// column (k * kThreads + t) * N.
template <int kThreads_, int N_, int K_>
struct RowShare {
  static constexpr int kThreads = kThreads_, N = N_, K = K_;
  static constexpr int kBlockThreads = kThreads == kWarp ? kWarpsPerBlock * kWarp : kThreads;

  std::int64_t row;
  int columns, thread;

  __device__ explicit RowShare(std::int64_t columns_)
      : row(kThreads == kWarp ? std::int64_t(blockIdx.x) * kWarpsPerBlock + threadIdx.x / kWarp : blockIdx.x),
        columns(int(columns_)),
        thread(int(threadIdx.x) % kThreads) {}

  __device__ int column(int k) const { return (k * kThreads + thread) * N; }
  __device__ bool inside(int k) const { return column(k) < columns; }
  __device__ std::int64_t first(int k) const { return row * columns + column(k); }

  // Reduces over the row and returns the result to all threads that share the row. If the whole block shares it, the
  // block needs shared memory for one Value per warp.
  template <class Value, class Combine>
  __device__ __forceinline__ Value reduce(Value own, Value identity, Combine combine) const {
    if constexpr (kThreads == kWarp)
      return warp_reduce(own, combine);
    else
      return block_reduce(own, dynamic_shared<Value>(), identity, combine);
  }
};

template <class Share, class Value>
Grid row_grid(std::int64_t rows) {
  if (Share::kThreads == kWarp) return {blocks_for(rows, kWarpsPerBlock), dim3(Share::kBlockThreads)};
  return {rows, dim3(Share::kThreads), Share::kThreads / kWarp * sizeof(Value)};
}

// A thread's share of one row of F's operands, in registers.
template <class F, class Share>
struct RowRegisters {
  static constexpr int N = Share::N;
  OperandPacks<N> packs[Share::K];

  __device__ __forceinline__ void load(const F& f, const Share& share) {
    FOLDGRAD_UNROLL
    for (int k = 0; k < Share::K; ++k)
      visited(f, FetchElements<N, /*kResults=*/false>{{packs[k]}, share.first(k), share.row, share.inside(k)});
  }
  // Returns a copy of f that sees pack k as its elements and columns 0 ... N - 1.
  __device__ __forceinline__ F shown(const F& f, const Share& share, int k) {
    const F columns = visited(f, FetchColumns<N>{{packs[k]}, share.column(k), share.inside(k)});
    return visited(columns, ShowElements<N>{{packs[k]}});
  }
};

// Runs steps k, k + 1, ... of F. In each step, calls also(shown, j, e) for every element e of every pack j.
template <int k, class F, class Share, class Also>
__device__ __forceinline__ void reduce_share(const F& f, const Share& share, RowRegisters<F, Share>& registers,
                                             typename F::Row& row, const Also& also) {
  using Value = typename F::Value;
  if constexpr (k < F::kSteps) {
    Value sums[F::kTerms];
    FOLDGRAD_UNROLL
    for (int t = 0; t < F::kTerms; ++t) sums[t] = row_identity<k, F>();
    FOLDGRAD_UNROLL
    for (int j = 0; j < Share::K; ++j) {
      const F shown = registers.shown(f, share, j);
      FOLDGRAD_UNROLL
      for (int e = 0; e < Share::N; ++e)
        if (share.inside(j)) {
          also(shown, j, e);
          shown.reduce(Step<k>(), row, e, e, sums);
        }
    }
    FOLDGRAD_UNROLL
    for (int t = 0; t < F::kTerms; ++t) sums[t] = share.reduce(sums[t], row_identity<k, F>(), RowMerge<k, F>{});
    f.finish(Step<k>(), row, sums);
    reduce_share<k + 1>(f, share, registers, row, also);
  }
}

template <class F, class Share>
__device__ __forceinline__ void write_share(const F& f, const Share& share, RowRegisters<F, Share>& registers,
                                            const typename F::Row& row) {
  if (share.thread == 0) f.keep(row, share.row);
  if (!f.target()) return;
  FOLDGRAD_UNROLL
  for (int k = 0; k < Share::K; ++k) {
    const F shown = registers.shown(f, share, k);
    typename F::Value values[Share::N];
    FOLDGRAD_UNROLL
    for (int e = 0; e < Share::N; ++e) values[e] = shown.value(row, e, e);
    put_pack(f.target(), share.first(k), values, share.inside(k));
  }
}

template <class F, class Share>
__global__ void __launch_bounds__(Share::kBlockThreads, 1) row_in_registers_kernel(F f) {
  const Share share(f.columns);
  if (share.row >= f.rows) return;  // the whole warp returns; with one warp per row there are no barriers
  RowRegisters<F, Share> registers;
  registers.load(f, share);
  typename F::Row row = f.row(share.row);
  reduce_share<0>(f, share, registers, row, [](const F&, int, int) {});
  write_share(f, share, registers, row);
}

// The layout of a warp's column sums in shared memory. The threads of a warp access different banks, and neighbouring
// columns are in different banks.
template <class Share, class Value>
struct RowOfSums {
  static constexpr int kPitch = kWarp + kBanks<Value> / Share::N;
  static constexpr int kSize = Share::K * Share::N * kPitch;

  __device__ static int at(int k, int e, int thread) { return (k * Share::N + e) * kPitch + thread; }
  __device__ static int at(int column) {
    return at(column / (kWarp * Share::N), column % Share::N, column / Share::N % kWarp);
  }
};

// Computes the results and partial sums over rows. Each warp processes one row after another. While a row is in
// registers for dx, the warp also adds the row's terms to its own column sums, so each row is loaded only once. Needs
// shared memory for one RowOfSums per warp.
template <class F, class Share>
__global__ void __launch_bounds__(kRowSumWarps* kWarp, 1) row_sums_kernel(ColumnSumParts<ColumnSumsOf<F>> p) {
  using Value = typename F::Value;
  const F& f = p.f.f;
  Share share(f.columns);
  const int warp = int(threadIdx.x) / kWarp;
  Value own[Share::K][Share::N][F::kSums] = {};
  share.row = std::int64_t(blockIdx.x) * kRowSumWarps + warp;
  for (; share.row < f.rows; share.row += std::int64_t(gridDim.x) * kRowSumWarps) {
    RowRegisters<F, Share> registers;
    registers.load(f, share);
    typename F::Row row = f.row(share.row);
    reduce_share<0>(f, share, registers, row, [&](const F& shown, int k, int e) { shown.add(row, e, e, own[k][e]); });
    write_share(f, share, registers, row);
  }
  using Sums = RowOfSums<Share, Value>;
  const SharedArray<Value> shared = shared_array<Value>();
  FOLDGRAD_UNROLL
  for (int s = 0; s < F::kSums; ++s) {
    __syncthreads();  // threads may still read earlier sums
    FOLDGRAD_UNROLL
    for (int k = 0; k < Share::K; ++k) FOLDGRAD_UNROLL
    for (int e = 0; e < Share::N; ++e) shared[warp * Sums::kSize + Sums::at(k, e, share.thread)] = own[k][e][s];
    __syncthreads();
    Value* part = p.partials + (std::int64_t(blockIdx.x) * F::kSums + s) * share.columns;
    for (int c = int(threadIdx.x); c < share.columns; c += kRowSumWarps * kWarp) {
      Value sum = 0;
      for (int w = 0; w < kRowSumWarps; ++w) sum += shared[w * Sums::kSize + Sums::at(c)];
      part[c] = sum;
    }
  }
}

template <class Share>
struct ShareType {
  using type = Share;
};

// Like row_op_cuda, but returns false if a row is longer than the largest share can hold, or if rows or operands are
// not aligned for packs.
template <class F>
bool row_in_registers(const F& f) {
  using T = ElementOf<F>;
  constexpr int N = kPackSize<T>, kMost = kMostRowNumbers<T>, kHalf = kMost / 2, kFew = kMost / 4;
  constexpr int kMiddle = kMiddleRowThreads, kLong = kLongRowThreads<T>;
  const auto run = [&](auto share) {
    using Share = typename decltype(share)::type;
    launch(F::kName, row_in_registers_kernel<F, Share>, row_grid<Share, typename F::Value>(f.rows), f);
    return true;
  };
  if (!in_packs<N>(f)) return false;
  if (f.columns <= kWarp * kFew) return run(ShareType<RowShare<kWarp, N, kFew / N>>());
  if (f.columns <= kWarp * kMost) return run(ShareType<RowShare<kWarp, N, kMost / N>>());
  if (f.columns <= kMiddle * kFew) return run(ShareType<RowShare<kMiddle, N, kFew / N>>());
  if (f.columns <= kLong * kHalf) return run(ShareType<RowShare<kLong, N, kHalf / N>>());
  return false;
}

// Computes results and sums over rows in one kernel. Returns false if operands are not aligned for packs, or if there
// are more than 1,024 columns (512 in f64): each thread also keeps kSums partial sums for each of its columns.
template <class F>
bool row_and_sums_in_registers(const F& f) {
  using T = ElementOf<F>;
  constexpr int N = kPackSize<T>, kMost = kMostRowNumbers<T>, kHalf = kMost / 2, kFew = kMost / 4;
  const auto run = [&](auto share) {
    using Share = typename decltype(share)::type;
    const std::int64_t parts = std::min(blocks_for(f.rows, kRowSumWarps), kMostRowSumParts);
    constexpr std::size_t kShared =
        kRowSumWarps * RowOfSums<Share, typename F::Value>::kSize * sizeof(typename F::Value);
    sums_of_parts(F::kName, ColumnSumsOf<F>{f}, parts, [&](const ColumnSumParts<ColumnSumsOf<F>>& p) {
      launch(F::kName, row_sums_kernel<F, Share>, Grid{parts, dim3(kRowSumWarps * kWarp), kShared}, p);
    });
    return true;
  };
  if (f.columns == 0 || !in_packs<N>(f)) return false;
  if (f.columns <= kWarp * kFew) return run(ShareType<RowShare<kWarp, N, kFew / N>>());
  if (f.columns <= kWarp * kHalf) return run(ShareType<RowShare<kWarp, N, kHalf / N>>());
  if (f.columns <= kWarp * kMost) return run(ShareType<RowShare<kWarp, N, kMost / N>>());
  return false;
}

// Like row_op_with_column_sums_cuda, but returns false where row_in_registers() does, and if there is no target.
template <class F>
bool row_with_column_sums_in_registers(const F& f) {
  const bool sums = wants_column_sums(f);
  if (f.target() && sums && row_and_sums_in_registers(f)) return true;
  if (!f.target() || !row_in_registers(f)) return false;
  if (sums) column_sums_cuda(ColumnSumsOf<F>{f});
  return true;
}

}  // namespace foldgrad
