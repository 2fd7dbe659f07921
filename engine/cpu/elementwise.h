// CPU loops for element-wise operations. A parameter struct F describes an operation for both devices:
//
//   static constexpr const char* kName;  the operation and the pass, for messages
//   std::int64_t n;                      the number of elements
//   target()                             the destination of the results: a pointer or a GradOut
//   Value value(i)                       the result of element i
//
// Instead of target() and value(), F may have operator()(i), which may write several tensors. For a matrix, F has
// `rows` and `columns` instead of n, and value(i, c) or operator()(i, c) also receives the column. The operation's .cpp
// runs F with FOLDGRAD_RUN(device, elementwise, f) or FOLDGRAD_RUN(device, matrix, f), and its .cu instantiates
// elementwise_cuda or matrix_cuda (engine/cuda/elementwise.h). On the CPU, large results of value() bypass the caches
// (write.h). run_element.h describes the optional members of F, such as random() and start().
#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "engine/cpu/philox_block.h"
#include "engine/cpu/run_element.h"
#include "engine/cpu/threads.h"
#include "engine/cpu/write.h"
#include "engine/kernels.h"

namespace foldgrad {

// Cuts n elements into pieces that begin at cache lines, and calls body(begin, end) for each piece, on all threads.
void parallel_blocks(std::int64_t n, const auto& body) {
  constexpr std::int64_t kBlock = 4096;  // a multiple of all vector lengths and of a cache line
  parallel_ranges((n + kBlock - 1) / kBlock, kBlock,
                  [&](std::int64_t begin, std::int64_t end) { body(begin * kBlock, std::min(n, end * kBlock)); });
}

// An operand visitor (engine/cuda/operands.h) that checks whether the results overwrite an operand.
struct FindOverwritten {
  const void* results;
  bool found = false;

  void element(const void* operand) { found |= operand == results; }
  void update(const void*) {}
  void column(const void*) {}
  void row(const void*) {}
  void result(const auto&) {}
};

// Returns true if f's results, a tensor of `elements` elements, should bypass the caches. Results that overwrite an
// operand should not: the operand's lines are in the caches, and evicting them halves the speed (42 instead of 80 GB/s
// for 64 MiB on 2 cores of a Sapphire Rapids Xeon).
template <class F>
bool results_bypass_cache(const F& f, std::int64_t elements) {
  if (!bypasses_cache(f.target(), elements)) return false;
  FindOverwritten visitor{};
  if constexpr (std::is_pointer_v<decltype(f.target())>)
    visitor.results = f.target();
  else
    visitor.results = f.target().data;
  if constexpr (requires(F copy) { copy.operands(visitor); }) {
    F copy = f;
    copy.operands(visitor);
  }
  return !visitor.found;
}

template <class F>
void matrix_cuda(const F& f);

// Calls body(i, end_i, bits_of) for consecutive parts [i, end_i) of [begin, end). bits_of(j) returns the random bits of
// element j, or 0 if f draws no random numbers.
template <class F, class Body>
void with_bits_cpu(const F& f, std::int64_t begin, std::int64_t end, const Body& body) {
  if constexpr (IsRandom<F>::value) {
    if (f.draws())
      return with_random_bits16(f.random(), begin, end, [&](std::int64_t i, std::int64_t end_i, const auto* bits) {
        body(i, end_i, [bits, i](std::int64_t j) { return bits[j - i]; });
      });
  }
  body(begin, end, [](std::int64_t) { return std::uint32_t(0); });
}

template <class F>
void elementwise_cpu(const F& f) {
  if constexpr (GivesValue<F>::value) {
    const bool bypass = results_bypass_cache(f, f.n);
    parallel_blocks(f.n, [&f, bypass](std::int64_t begin, std::int64_t end) {
      with_bits_cpu(f, begin, end, [&f, bypass](std::int64_t i, std::int64_t end_i, const auto& bits_of) {
        write_cpu(f.target(), i, end_i, bypass,
                  [local = f, bits_of](std::int64_t j) { return value_of(local, bits_of, j); });
      });
    });
  } else {
    parallel_blocks(f.n, [&f](std::int64_t begin, std::int64_t end) {
      const F local = f;  // a copy in registers: a reference could alias the output
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) local(i);
    });
  }
}

// Splits elements [begin, end) of a matrix at the ends of rows. Calls body(i, end_i, column of i) for each part.
void for_row_parts(std::int64_t begin, std::int64_t end, std::int64_t columns, const auto& body) {
  for (std::int64_t c = begin % columns; begin < end; c = 0) {
    const std::int64_t run = std::min(end - begin, columns - c);  // stops at the end of the row
    body(begin, begin + run, c);
    begin += run;
  }
}

// Returns a copy of f that is prepared by start_elements() for elements i, i + 1, ... of row r.
template <class F>
F started(F f, std::int64_t i, std::int64_t r) {
  start_elements(f, i, r);
  return f;
}

template <class F>
void matrix_cpu(const F& f) {
  const std::int64_t n = f.rows * f.columns;
  bool bypass = false;
  if constexpr (GivesValue<F>::value) bypass = results_bypass_cache(f, n);
  parallel_blocks(n, [&f, bypass](std::int64_t begin, std::int64_t end) {
    with_bits_cpu(f, begin, end, [&f, bypass](std::int64_t first, std::int64_t last, const auto& bits_of) {
      for_row_parts(first, last, f.columns, [&](std::int64_t i, std::int64_t end_i, std::int64_t c) {
        const F local = started(f, i, i / f.columns);
        if constexpr (GivesValue<F>::value) {
          write_cpu(f.target(), i, end_i, bypass,
                    [local, bits_of, shift = i - c](std::int64_t j) { return value_of(local, bits_of, j, j - shift); });
        } else {
#pragma omp simd
          for (std::int64_t k = 0; k < end_i - i; ++k) local(i + k, c + k);
        }
      });
    });
  });
}

}  // namespace foldgrad
