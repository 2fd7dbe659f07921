// Sums over the rows of a matrix, column by column, such as the gradients of biases and gains. The order of summation
// does not depend on the number of threads. A parameter struct F describes the sums for both devices:
//
//   static constexpr const char* kName;   the operation and the pass, for messages
//   using Value = ...;                    the type of the sums: compute_t of the element type
//   static constexpr int kSums;           the number of sums per column
//   std::int64_t rows, columns;
//   void add(r, c, Value (&sums)[kSums])  adds the contribution of row r to column c
//   ParameterGradOut<T> total(k)          the destination of sum k of each column; null if sum k is not wanted
//   FOLDGRAD_OPERANDS(...)                the operands, for the CUDA loops (engine/kernels.h)
#pragma once
#include <algorithm>
#include <cstdint>

#include "engine/cpu/rows.h"
#include "engine/memory.h"

namespace foldgrad {

// Adds the partial sums [kSums, columns] of all blocks, one block after another, and stores the totals.
template <class F>
void finish_column_sums(const F& p, const typename F::Value* partials, std::int64_t blocks) {
  using Value = typename F::Value;
  parallel_ranges(p.columns, blocks, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      Value sums[F::kSums] = {};
      for (std::int64_t b = 0; b < blocks; ++b)
        for (int k = 0; k < F::kSums; ++k) sums[k] += partials[(b * F::kSums + k) * p.columns + c];
      put_column_sums(p, c, sums);
    }
  });
}

// Calls add_row(r, own) once for every row r. add_row() must add the row's contributions to own [kSums, columns]; it
// may do more with the row while the row is in the cache. `work` counts the elements read or written.
template <class F, class AddRow>
void column_sums_cpu(const F& p, const AddRow& add_row, std::int64_t work) {
  using Value = typename F::Value;
  // There are at most 32 blocks of at least 16 rows, so that the partial sums stay small and all cores are busy. The
  // number of blocks does not depend on the number of threads, so the sums do not depend on it either.
  const std::int64_t per_block = std::max<std::int64_t>(16, (p.rows + 31) / 32);
  const std::int64_t blocks = (p.rows + per_block - 1) / per_block;
  const auto scratch = memory::allocate(Device::cpu, std::size_t(blocks * F::kSums * p.columns) * sizeof(Value));
  Value* partials = static_cast<Value*>(scratch.get());
  for_rows_cpu(blocks, work / std::max<std::int64_t>(blocks, 1), [&](std::int64_t b) {
    Value* own = partials + b * F::kSums * p.columns;
    std::fill_n(own, F::kSums * p.columns, Value(0));
    for (std::int64_t r = b * per_block; r < std::min(p.rows, (b + 1) * per_block); ++r) add_row(r, own);
  });
  finish_column_sums(p, partials, blocks);
}
template <class F, class AddRow>
void column_sums_cpu(const F& p, const AddRow& add_row) {
  column_sums_cpu(p, add_row, p.rows * p.columns);
}

// Adds row r's contributions with p.add() and, if with_elements, computes the row's elements. Stores the sums after
// both steps: with a store in between, all values would be computed again, because the store might have changed the
// operands.
template <bool with_elements, class F>
void add_row_cpu(const F& p, std::int64_t r, typename F::Value* own) {
  const std::int64_t begin = r * p.columns;
  with_bits_cpu(p, begin, begin + p.columns, [&](std::int64_t i, std::int64_t end_i, const auto& bits_of) {
    const F local = started(p, i, r);
    const auto element = [local, own, r, begin, bits_of](std::int64_t j) {
      const std::int64_t c = j - begin;
      typename F::Value sums[F::kSums], value = 0;
      for (int k = 0; k < F::kSums; ++k) sums[k] = own[k * local.columns + c];
      add_terms(local, bits_of, r, c, sums);
      if constexpr (with_elements) value = value_of(local, bits_of, j, c);
      for (int k = 0; k < F::kSums; ++k) own[k * local.columns + c] = sums[k];
      return value;
    };
    if constexpr (with_elements) {
      write_cpu(p.target(), i, end_i, results_bypass_cache(p, p.rows * p.columns), element);
    } else {
#pragma omp simd
      for (std::int64_t j = i; j < end_i; ++j) element(j);
    }
  });
}

template <class F>
void column_sums_cuda(const F& f);
template <class F>
void column_sums_cpu(const F& p) {
  column_sums_cpu(p, [&p](std::int64_t r, auto* own) { add_row_cpu</*with_elements=*/false>(p, r, own); });
}

// Computes the elements of a matrix (elementwise.h) and its column sums in one pass, so that values that both add() and
// value() use are computed once. If target() is null, computes only the sums. The CPU also computes sum k if total(k)
// is null; this is rare.
template <class F>
void elements_and_column_sums_cuda(const F& f);
template <class F>
void elements_and_column_sums_cpu(const F& p) {
  if (p.target())
    column_sums_cpu(p, [&p](std::int64_t r, auto* own) { add_row_cpu</*with_elements=*/true>(p, r, own); });
  else
    column_sums_cpu(p);
}

}  // namespace foldgrad
