// The elements of bias_dropout_residual, for its kernels and for those that do more at the same time. For .cu files.
#pragma once
#include "engine/cuda/operands.h"
#include "ops/dropout/dropout_kernels.h"
#include "ops/dropout/pack_words_cuda.h"

namespace foldgrad {

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
  template <class Visit>
  FOLDGRAD_HD void operands(Visit& visit) {
    visit.result(p.y);
    visit.element(p.x);
    visit.element(p.residual);
    visit.column(p.bias);
  }
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
  // Element c of the pack, with its dy.
  __device__ Value value(std::int64_t c, Value dy) const { return p.mask.apply(dy, random.bits(c)); }  // [DO-5]
  __device__ void put(std::int64_t i, std::int64_t c, Value dy) const { p.dx.put(i, value(c, dy)); }
  __device__ void operator()(std::int64_t i, std::int64_t c) const { put(i, c, Value(p.dy[i])); }
  __device__ void add(std::int64_t, std::int64_t c, Value (&sums)[kSums]) const { sums[0] += value(c, Value(p.dy[c])); }
  FOLDGRAD_HD const ParameterGradOut<T>& total(int) const { return p.dbias; }
  template <class Visit>
  FOLDGRAD_HD void operands(Visit& visit) {
    visit.result(p.dx);
    visit.element(p.dy);
  }
};

}  // namespace foldgrad
