#include "engine/cpu/column_sums.h"
#include "engine/cpu/elementwise.h"
#include "engine/cpu/philox_block.h"
#include "ops/dropout/dropout_kernels.h"

namespace foldgrad {
namespace {

// Calls body(i, end_i, bits_of) for parts of begin ... end - 1; bits_of(j) returns the bits of element j. No bits are
// made if all elements are kept.
template <class V, class Body>
void with_bits(const Mask<V>& mask, std::int64_t begin, std::int64_t end, const Body& body) {
  if (mask.threshold == 0) return body(begin, end, [](std::int64_t) { return std::uint32_t(0); });
  with_random_bits16(mask.random, begin, end, [&](std::int64_t i, std::int64_t end_i, const std::uint32_t* bits) {
    body(i, end_i, [bits, i](std::int64_t j) { return bits[j - i]; });
  });
}

// dx of a row, and its share of dbias while it is in a register.
template <class T>
void backward_row(const BiasDropoutResidualBackward<T>& p, std::int64_t r, compute_t<T>* dbias) {
  const std::int64_t begin = r * p.columns;
  const bool bypass = bypasses_cache<T>(p.rows * p.columns);
  with_bits(p.mask, begin, begin + p.columns, [&](std::int64_t i, std::int64_t end_i, const auto& bits_of) {
    const BiasDropoutResidualBackward<T> local = p.at(i);
    compute_t<T>* sums = dbias + (i - begin);
    if (local.dx) {
      write_cpu(local.dx, i, end_i, bypass, [=](std::int64_t j) {
        const compute_t<T> dx = local.value(j, bits_of(j));
        sums[j - i] += dx;
        return dx;
      });
    } else {
#pragma omp simd
      for (std::int64_t j = i; j < end_i; ++j) sums[j - i] += local.value(j, bits_of(j));
    }
  });
}

template <class T>
void backward_dx(const BiasDropoutResidualBackward<T>& p) {
  const std::int64_t n = p.rows * p.columns;
  const bool bypass = bypasses_cache<T>(n);
  parallel_blocks(n, [&p, bypass](std::int64_t begin, std::int64_t end) {
    for_row_parts(begin, end, p.samples.size, [&p, bypass](std::int64_t first, std::int64_t last, std::int64_t) {
      with_bits(p.mask, first, last, [&](std::int64_t i, std::int64_t end_i, const auto& bits_of) {
        write_cpu(p.dx, i, end_i, bypass,
                  [local = p.at(i), bits_of](std::int64_t j) { return local.value(j, bits_of(j)); });
      });
    });
  });
}

}  // namespace

template <class T>
void dropout_cpu(const Dropout<T>& p) {
  const bool bypass = bypasses_cache<T>(p.n);
  parallel_blocks(p.n, [&p, bypass](std::int64_t begin, std::int64_t end) {
    with_random_bits16(p.mask.random, begin, end, [&](std::int64_t i, std::int64_t end_i, const auto* bits) {
      write_cpu(p.y, i, end_i, bypass, [local = p, bits, i](std::int64_t j) { return local.value(j, bits[j - i]); });
    });
  });
}
template <class T>
void dropout_cpu(const BiasDropoutResidualForward<T>& p) {
  const std::int64_t n = p.rows * p.columns;
  const bool bypass = bypasses_cache<T>(n);
  parallel_blocks(n, [&p, bypass](std::int64_t first, std::int64_t last) {
    with_bits(p.mask, first, last, [&](std::int64_t begin, std::int64_t end, const auto& bits_of) {
      for_row_parts(begin, end, p.columns, [&](std::int64_t i, std::int64_t end_i, std::int64_t c) {
        write_cpu(p.y, i, end_i, bypass, [local = p.at(i), bits_of, shift = i - c](std::int64_t j) {
          return local.value(j, j - shift, bits_of(j));
        });
      });
    });
  });
}

template <class T>
void dropout_cpu(const BiasDropoutResidualBackward<T>& p) {
  if (p.dbias)
    column_sums_cpu(p, [&p](std::int64_t r, compute_t<T>* dbias) { backward_row(p, r, dbias); });
  else if (p.dx)
    backward_dx(p);
}

FOLDGRAD_INSTANTIATE(dropout_cpu, Dropout);
FOLDGRAD_INSTANTIATE(dropout_cpu, BiasDropoutResidualForward);
FOLDGRAD_INSTANTIATE(dropout_cpu, BiasDropoutResidualBackward);

}  // namespace foldgrad
