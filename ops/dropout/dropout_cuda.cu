#include "engine/cuda/column_sums.h"
#include "engine/cuda/elementwise.h"
#include "engine/cuda/operands.h"
#include "ops/dropout/dropout_kernels.h"
#include "ops/dropout/pack_words_cuda.h"

namespace foldgrad {
namespace {

template <class T>
struct Drop {
  Dropout<T> p;
  PackWords random;

  __device__ void start(std::int64_t i) { random = PackWords::of(p.mask.random, i); }
  __device__ void operator()(std::int64_t k) const { p.y.put(k, p.value(k, random.bits(k))); }
  FOLDGRAD_OPERANDS(visit.result(p.y), visit.element(p.x));
};

// A sample is a number of rows, so a pack lies in one sample.
template <class T>
struct BranchForward {
  BiasDropoutResidualForward<T> p;
  PackWords random;

  __device__ void start(std::int64_t i) {
    random = PackWords::of(p.mask.random, i);
    p.mask = p.samples.times(p.mask, i);
  }
  __device__ void operator()(std::int64_t i, std::int64_t c) const { p.y[i] = T(p.value(i, c, random.bits(c))); }
  FOLDGRAD_OPERANDS(visit.result(p.y), visit.element(p.x), visit.element(p.residual), visit.column(p.bias));
};

template <class T>
struct BranchBackward {
  using Value = compute_t<T>;
  static constexpr int kSums = 1;

  BiasDropoutResidualBackward<T> p;
  std::int64_t rows = p.rows, columns = p.columns;
  PackWords random = {};

  __device__ void start(std::int64_t i) {
    random = PackWords::of(p.mask.random, i);
    p.mask = p.samples.times(p.mask, i);
  }
  // Element c of the pack.
  __device__ Value value(std::int64_t c) const { return p.mask.apply(Value(p.dy[c]), random.bits(c)); }  // [DO-5]
  __device__ void operator()(std::int64_t i, std::int64_t c) const { p.dx.put(i, value(c)); }
  __device__ void add(std::int64_t, std::int64_t c, Value (&sums)[kSums]) const { sums[0] += value(c); }
  FOLDGRAD_HD const ParameterGradOut<T>& total(int) const { return p.dbias; }
  FOLDGRAD_OPERANDS(visit.result(p.dx), visit.element(p.dy));
};

}  // namespace

template <class T>
void dropout_cuda(const Dropout<T>& p) {
  elementwise_packs_cuda<kPackSize<T>>("dropout", p.n, Drop<T>{p, {}});
}
template <class T>
void dropout_cuda(const BiasDropoutResidualForward<T>& p) {
  matrix_cuda<kPackSize<T>>("bias_dropout_residual forward", p.rows, p.columns, BranchForward<T>{p, {}});
}
template <class T>
void dropout_cuda(const BiasDropoutResidualBackward<T>& p) {
  const BranchBackward<T> k{p};
  elements_and_column_sums_cuda<kPackSize<T>>("bias_dropout_residual backward", bool(p.dx), bool(p.dbias), k);
}

FOLDGRAD_INSTANTIATE(dropout_cuda, Dropout);
FOLDGRAD_INSTANTIATE(elementwise_cuda, DropPathFactors);
FOLDGRAD_INSTANTIATE(dropout_cuda, BiasDropoutResidualForward);
FOLDGRAD_INSTANTIATE(dropout_cuda, BiasDropoutResidualBackward);

}  // namespace foldgrad
