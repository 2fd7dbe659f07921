#include "engine/cuda/column_sums.h"
#include "engine/cuda/elementwise.h"
#include "ops/dropout/dropout_kernels.h"

namespace foldgrad {
namespace {

// Eight elements per thread, since a block of Philox has eight halves of words.
template <class Kernel>
struct EightElements {
  Kernel p;
  std::int64_t n;

  __device__ void operator()(std::int64_t block) const {
    const PhiloxWords words = p.mask.random.block(std::uint64_t(block));
    for (int k = 0; k < 8; ++k)
      if (8 * block + k < n) p(8 * block + k, Random::half(words, k));
  }
};

template <class Kernel>
void elementwise_random(const char* name, std::int64_t n, const Kernel& p) {
  elementwise_cuda(name, (n + 7) / 8, EightElements<Kernel>{p, n});
}

template <class T>
struct BranchForward {
  BiasDropoutResidualForward<T> p;
  Mask<compute_t<T>> mask;

  __device__ void operator()(std::int64_t i, std::uint32_t bits) const {
    p.y[i] = T(p.at(i).value(i, column(i, p.columns), bits));
  }
};
template <class T>
struct BranchBackward {
  BiasDropoutResidualBackward<T> p;
  Mask<compute_t<T>> mask;

  __device__ void operator()(std::int64_t i, std::uint32_t bits) const { p.dx.put(i, p.at(i).value(i, bits)); }
};

}  // namespace

template <class T>
void dropout_cuda(const DropoutForward<T>& p) {
  elementwise_random("dropout forward", p.n, p);
}
template <class T>
void dropout_cuda(const DropoutBackward<T>& p) {
  elementwise_random("dropout backward", p.n, p);
}
template <class T>
void dropout_cuda(const DropPathFactors<T>& p) {
  elementwise_cuda("bias_dropout_residual drop path", p.samples, p);
}
template <class T>
void dropout_cuda(const BiasDropoutResidualForward<T>& p) {
  elementwise_random("bias_dropout_residual forward", p.rows * p.columns, BranchForward<T>{p, p.mask});
}
template <class T>
void dropout_cuda(const BiasDropoutResidualBackward<T>& p) {
  if (p.dx) elementwise_random("bias_dropout_residual backward of x", p.rows * p.columns, BranchBackward<T>{p, p.mask});
  if (p.dbias) column_sums_cuda("bias_dropout_residual backward of bias", p);
}

FOLDGRAD_INSTANTIATE(dropout_cuda, DropoutForward);
FOLDGRAD_INSTANTIATE(dropout_cuda, DropoutBackward);
FOLDGRAD_INSTANTIATE(dropout_cuda, DropPathFactors);
FOLDGRAD_INSTANTIATE(dropout_cuda, BiasDropoutResidualForward);
FOLDGRAD_INSTANTIATE(dropout_cuda, BiasDropoutResidualBackward);

}  // namespace foldgrad
