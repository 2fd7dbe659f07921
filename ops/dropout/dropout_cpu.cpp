#include "engine/column_sums_cpu.h"
#include "engine/elementwise_cpu.h"
#include "engine/philox_block.h"
#include "ops/dropout/dropout_kernels.h"

namespace foldgrad {
namespace {

template <class Kernel>
void elementwise_random(const Kernel& p) {
  parallel_blocks(p.n, [&p](std::int64_t begin, std::int64_t end) {
    const Kernel local = p;
    with_random_bits(local.mask.random, begin, end, [&local](std::int64_t i, std::int64_t end_i, const auto* bits) {
#pragma omp simd
      for (std::int64_t k = 0; k < end_i - i; ++k) local(i + k, bits[k]);
    });
  });
}

// dx of a row, and its share of dbias while it is in a register.
template <class T>
void backward_row(const BiasDropoutResidualBackward<T>& p, std::int64_t r, compute_t<T>* dbias) {
  const std::int64_t begin = r * p.columns;
  with_random_bits(p.mask.random, begin, begin + p.columns, [&](std::int64_t i, std::int64_t end_i, const auto* bits) {
    const BiasDropoutResidualBackward<T> local = p;
    compute_t<T>* sums = dbias + (i - begin);
    if (local.dx) {
#pragma omp simd
      for (std::int64_t k = 0; k < end_i - i; ++k) {
        const compute_t<T> dx = local.share(i + k, bits[k]);
        local.dx.put(i + k, dx);
        sums[k] += dx;
      }
    } else {
#pragma omp simd
      for (std::int64_t k = 0; k < end_i - i; ++k) sums[k] += local.share(i + k, bits[k]);
    }
  });
}

}  // namespace

template <class T>
void dropout_cpu(const DropoutForward<T>& p) {
  elementwise_random(p);
}
template <class T>
void dropout_cpu(const DropoutBackward<T>& p) {
  elementwise_random(p);
}

template <class T>
void dropout_cpu(const BiasDropoutResidualForward<T>& p) {
  if (p.mask.threshold == 0)
    return elementwise_columns_cpu(p.rows * p.columns, p.columns,
                                   [p](std::int64_t i, std::int64_t c) { p(i, c, /*bits=*/0); });
  parallel_blocks(p.rows * p.columns, [&p](std::int64_t begin, std::int64_t end) {
    with_random_bits(p.mask.random, begin, end, [&p](std::int64_t i, std::int64_t end_i, const auto* bits) {
      elementwise_columns(i, end_i, p.columns, [p, bits, i](std::int64_t j, std::int64_t c) { p(j, c, bits[j - i]); });
    });
  });
}

template <class T>
void dropout_cpu(const BiasDropoutResidualBackward<T>& p) {
  if (p.dbias)
    column_sums_cpu(p, [&p](std::int64_t r, compute_t<T>* dbias) { backward_row(p, r, dbias); });
  else if (p.dx)
    elementwise_random(DropoutBackward<T>{p.dx, p.dy, p.rows * p.columns, p.mask});
}

#define FOLDGRAD_INSTANTIATE(T)                                    \
  template void dropout_cpu(const DropoutForward<T>&);             \
  template void dropout_cpu(const DropoutBackward<T>&);            \
  template void dropout_cpu(const BiasDropoutResidualForward<T>&); \
  template void dropout_cpu(const BiasDropoutResidualBackward<T>&);
FOLDGRAD_INSTANTIATE(float)
FOLDGRAD_INSTANTIATE(double)
FOLDGRAD_INSTANTIATE(bf16)
#undef FOLDGRAD_INSTANTIATE

}  // namespace foldgrad
