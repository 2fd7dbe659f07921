// Row operations, such as layer norm and softmax, on a matrix [rows, columns]. For each row, an operation runs a few
// steps of sums, one after another, and then computes a result for each element. A parameter struct F describes an
// operation for both devices (engine/cuda/row_op.h). Element i = r * columns + c is in row r and column c:
//
//   static constexpr const char* kName;   the operation and the pass, for messages
//   using Value = ...;                    the type of sums: compute_t of the element type
//   static constexpr int kSteps, kTerms;  the number of steps; the number of sums per step, a power of two
//   std::int64_t rows, columns;
//   struct Row { ... };                   values of a row, such as its mean
//   Row row(r)                            the values of row r before the first step
//   void reduce(Step<k>, const Row&, i, c, Value (&sums)[kTerms])  adds the terms of element i to the sums of step k
//                                                                  (Step: engine/kernels.h)
//   void finish(Step<k>, Row&, const Value (&sums)[kTerms])        computes values of the row from these sums
//   void keep(const Row&, r)              stores values for the backward pass
//   target()                              the matrix of results: a pointer or a GradOut; null if no results are wanted
//   Value value(const Row&, i, c)         the result of element i
//
// A backward pass that also sums over the rows has one step, kSums and total() as in column_sums.h, a pointer `dy` to
// the element type, and
//
//   void add(const Row&, i, c, Value (&sums)[kSums])  adds the terms of element i to the sums of column c
//
// add() receives the Row that row(r) returned, before finish(). If F has a member kMaxStep = k, step k takes maxima
// instead of sums. Fast kernels and, on CUDA, sums over the rows need FOLDGRAD_OPERANDS (engine/kernels.h).
#pragma once
#include <limits>

#include "engine/cpu/column_sums.h"
#include "engine/cpu/rows.h"
#include "engine/kernels.h"

namespace foldgrad {

// These functions run an operation. The operation's .cpp calls them with FOLDGRAD_RUN(device, row_op, f); its .cu
// instantiates the CUDA versions.
template <class F>
void row_op_cpu(const F& f);
template <class F>
void row_op_cuda(const F& f);
template <class F>
void row_op_with_column_sums_cpu(const F& f);
template <class F>
void row_op_with_column_sums_cuda(const F& f);

// Runs step k on row r, and calls also(row, i, c) for each element of the row.
template <int k, class F, class Also>
void reduce_row_cpu(const F& f, typename F::Row& row, std::int64_t r, const Also& also) {
  using Value = typename F::Value;
  const auto step = [&f, known = row, first = r * f.columns, &also](std::int64_t c, Value(&sums)[F::kTerms]) {
    f.reduce(Step<k>(), known, first + c, c, sums);
    also(known, first + c, c);
  };
  std::array<Value, F::kTerms> results;
  if constexpr (kTakesMaxima<k, F>)
    results = fold_cpu<F::kTerms>(f.columns, -std::numeric_limits<Value>::infinity(), step,
                                  [](Value a, Value b) { return b > a ? b : a; });  // reduce() admits no NaN
  else
    results = sums_cpu<F::kTerms, Value>(f.columns, step);
  Value sums[F::kTerms];
  std::copy(results.begin(), results.end(), sums);
  f.finish(Step<k>(), row, sums);
}

template <class F>
void write_row_cpu(const F& f, const typename F::Row& row, std::int64_t r) {
  f.keep(row, r);
  if (!f.target()) return;
  const std::int64_t first = r * f.columns;
  const std::int64_t all = f.rows * f.columns;
  const bool bypass = rows_bypass_cache(f.target(), all) && results_bypass_cache(f, all);
  write_cpu(f.target(), first, first + f.columns, bypass,
            [&f, row, first](std::int64_t i) { return f.value(row, i, i - first); });
}

// Runs step k on rows [begin, end), then all later steps.
template <int k, class F>
void reduce_rows_cpu(const F& f, typename F::Row* rows, std::int64_t begin, std::int64_t end) {
  if constexpr (k < F::kSteps) {
    for (std::int64_t r = begin; r < end; ++r) reduce_row_cpu<k>(f, rows[r - begin], r, [](const auto&...) {});
    reduce_rows_cpu<k + 1>(f, rows, begin, end);
  }
}

template <class F>
[[gnu::flatten]] void row_group_cpu(const F& given, std::int64_t begin, std::int64_t end) {
  const F f = given;  // a copy in registers: a reference could alias the output
  typename F::Row rows[kRowGroup];
  for (std::int64_t r = begin; r < end; ++r) rows[r - begin] = f.row(r);
  reduce_rows_cpu<0>(f, rows, begin, end);
  for (std::int64_t r = begin; r < end; ++r) write_row_cpu(f, rows[r - begin], r);
}

template <class F>
void row_op_cpu(const F& f) {
  for_row_groups_cpu(f.rows, f.columns, [&f](std::int64_t begin, std::int64_t end) { row_group_cpu(f, begin, end); });
}

template <class F>
[[gnu::always_inline]] inline void run_row_with_column_sums(const F& given, std::int64_t r, typename F::Value* own) {
  using Value = typename F::Value;
  const F f = given;
  std::array<Value*, F::kSums> columns;
  for (int s = 0; s < F::kSums; ++s) columns[s] = own + s * f.columns;
  const auto add = [&f, columns](const typename F::Row& row, std::int64_t i, std::int64_t c) {
    Value sums[F::kSums];
    for (int s = 0; s < F::kSums; ++s) sums[s] = columns[s][c];
    f.add(row, i, c, sums);
    for (int s = 0; s < F::kSums; ++s) columns[s][c] = sums[s];
  };
  typename F::Row row = f.row(r);
  reduce_row_cpu<0>(f, row, r, add);
  write_row_cpu(f, row, r);
}

// Computes the operation and the sums over rows in one pass, so that values that both add() and reduce() use are
// computed once.
template <class F>
void row_op_with_column_sums_cpu(const F& f) {
  column_sums_cpu(f, [&f](std::int64_t r, typename F::Value* own) { run_row_with_column_sums(f, r, own); });
}

}  // namespace foldgrad
