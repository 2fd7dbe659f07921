// The elements of bias_dropout_residual, for its kernel and for those that go on with its result. For .cu files.
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

}  // namespace foldgrad
