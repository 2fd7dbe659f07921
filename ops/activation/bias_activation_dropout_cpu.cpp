#include "engine/cpu/column_sums.h"
#include "engine/cpu/elementwise.h"
#include "engine/cpu/philox_block.h"
#include "ops/activation/bias_activation_dropout_kernels.h"

namespace foldgrad {
namespace {

// k.value() of all elements to `target`.
template <class K, class Target>
void elements(const K& k, const Target& target) {
  const std::int64_t n = k.p.rows * k.p.columns;
  const bool bypass = bypasses_cache(target, n);
  parallel_blocks(n, [&](std::int64_t begin, std::int64_t end) {
    with_random_bits16(k.p.mask.random, begin, end, [&](std::int64_t first, std::int64_t last, const auto* bits) {
      for_row_parts(first, last, k.p.columns, [&](std::int64_t i, std::int64_t end_i, std::int64_t c) {
        write_cpu(target, i, end_i, bypass, [local = k, bits, first, shift = i - c](std::int64_t j) {
          return local.value(j, j - shift, bits[j - first]);
        });
      });
    });
  });
}

// dx of a row, and its share of dbias while it is in a register.
template <class T, class F>
void backward_row(const ActivateAndDropBackward<T, F>& k, std::int64_t r, compute_t<T>* dbias) {
  const std::int64_t begin = r * k.columns;
  const bool bypass = bypasses_cache<T>(k.rows * k.columns);
  with_random_bits16(k.p.mask.random, begin, begin + k.columns,
                     [&](std::int64_t i, std::int64_t end_i, const auto* bits) {
                       const ActivateAndDropBackward<T, F> local = k;
                       compute_t<T>* sums = dbias + (i - begin);
                       if (local.p.dx) {
                         write_cpu(local.p.dx, i, end_i, bypass, [=](std::int64_t j) {
                           const compute_t<T> dx = local.value(j, j - begin, bits[j - i]);
                           sums[j - i] += dx;
                           return dx;
                         });
                       } else {
#pragma omp simd
                         for (std::int64_t j = 0; j < end_i - i; ++j)
                           sums[j] += local.value(i + j, i + j - begin, bits[j]);
                       }
                     });
}

}  // namespace

template <class T>
void bias_activation_dropout_cpu(const BiasActivationDropoutForward<T>& p) {
  with_activation(p.activation, [&](auto f) { elements(ActivateAndDrop<T, decltype(f)>{p}, p.y); });
}
template <class T>
void bias_activation_dropout_cpu(const BiasActivationDropoutBackward<T>& p) {
  with_activation(p.activation, [&](auto f) {
    const ActivateAndDropBackward<T, decltype(f)> k{p};
    if (p.dbias)
      column_sums_cpu(k, [&k](std::int64_t r, compute_t<T>* dbias) { backward_row(k, r, dbias); });
    else if (p.dx)
      elements(k, p.dx);
  });
}

FOLDGRAD_INSTANTIATE(bias_activation_dropout_cpu, BiasActivationDropoutForward);
FOLDGRAD_INSTANTIATE(bias_activation_dropout_cpu, BiasActivationDropoutBackward);

}  // namespace foldgrad
