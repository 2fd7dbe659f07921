#include "engine/cuda/column_sums.h"
#include "ops/activation/bias_activation_dropout_kernels.h"
#include "ops/dropout/pack_words_cuda.h"

namespace foldgrad {
namespace {

template <class T, class F>
struct PackForward {
  ActivateAndDrop<T, F> k;
  PackWords random;

  __device__ void start(std::int64_t i) { random = PackWords::of(k.p.mask.random, i); }
  __device__ void operator()(std::int64_t i, std::int64_t c) const { k.p.y[i] = T(k.value(i, c, random.bits(c))); }
  template <class Visit>
  FOLDGRAD_HD void operands(Visit& visit) {
    visit.result(k.p.y);
    visit.element(k.p.x);
    visit.column(k.p.bias);
  }
};

template <class T, class F>
struct PackBackward {
  using Value = compute_t<T>;
  static constexpr int kSums = 1;

  ActivateAndDropBackward<T, F> k;
  std::int64_t rows = k.rows, columns = k.columns;
  PackWords random = {};

  __device__ void start(std::int64_t i) { random = PackWords::of(k.p.mask.random, i); }
  __device__ void operator()(std::int64_t i, std::int64_t c) const { k.p.dx.put(i, k.value(i, c, random.bits(c))); }
  __device__ void add(std::int64_t, std::int64_t c, Value (&sums)[kSums]) const {
    sums[0] += k.value(c, c, random.bits(c));
  }
  FOLDGRAD_HD const ParameterGradOut<T>& total(int) const { return k.p.dbias; }
  template <class Visit>
  FOLDGRAD_HD void operands(Visit& visit) {
    visit.result(k.p.dx);
    visit.element(k.p.dy);
    visit.element(k.p.x);
    visit.column(k.p.bias);
  }
};

}  // namespace

template <class T>
void bias_activation_dropout_cuda(const BiasActivationDropoutForward<T>& p) {
  with_activation(p.activation, [&](auto f) {
    const PackForward<T, decltype(f)> k{{p}, {}};
    matrix_cuda<kPackSize<T>>("bias_activation_dropout forward", p.rows, p.columns, k);
  });
}
template <class T>
void bias_activation_dropout_cuda(const BiasActivationDropoutBackward<T>& p) {
  with_activation(p.activation, [&](auto f) {
    const PackBackward<T, decltype(f)> k{{p}};
    // Where nobody wants dbias, its sums are for nothing: it is always there in training.
    if (p.dx)
      packed_column_sums_cuda<kPackSize<T>, /*kElements=*/true>("bias_activation_dropout backward", k);
    else if (p.dbias)
      packed_column_sums_cuda<kPackSize<T>>("bias_activation_dropout backward", k);
  });
}

FOLDGRAD_INSTANTIATE(bias_activation_dropout_cuda, BiasActivationDropoutForward);
FOLDGRAD_INSTANTIATE(bias_activation_dropout_cuda, BiasActivationDropoutBackward);

}  // namespace foldgrad
