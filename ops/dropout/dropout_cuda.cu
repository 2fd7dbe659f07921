#include "engine/cuda/column_sums.h"
#include "engine/cuda/elementwise.h"
#include "ops/dropout/branch_cuda.h"

namespace foldgrad {
namespace {

template <class Visit, class T>
FOLDGRAD_HD void visit_operands(Visit& visit, DropoutForward<T>& p) {
  visit.result(p.y);
  visit.element(p.x);
}
template <class Visit, class T>
FOLDGRAD_HD void visit_operands(Visit& visit, DropoutBackward<T>& p) {
  visit.result(p.dx);
  visit.element(p.dy);
}

// K is DropoutForward<T> or DropoutBackward<T>.
template <class K>
struct Drop {
  K p;
  PackWords random;

  __device__ void start(std::int64_t i) { random = PackWords::of(p.mask.random, i); }
  __device__ void operator()(std::int64_t k) const { p(k, random.bits(k)); }
  template <class Visit>
  FOLDGRAD_HD void operands(Visit& visit) {
    visit_operands(visit, p);
  }
};

}  // namespace

template <class T>
void dropout_cuda(const DropoutForward<T>& p) {
  elementwise_packs_cuda<kPackSize<T>>("dropout forward", p.n, Drop<DropoutForward<T>>{p, {}});
}
template <class T>
void dropout_cuda(const DropoutBackward<T>& p) {
  elementwise_packs_cuda<kPackSize<T>>("dropout backward", p.n, Drop<DropoutBackward<T>>{p, {}});
}
template <class T>
void dropout_cuda(const DropPathFactors<T>& p) {
  elementwise_cuda("bias_dropout_residual drop path", p.samples, p);
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

FOLDGRAD_INSTANTIATE(dropout_cuda, DropoutForward);
FOLDGRAD_INSTANTIATE(dropout_cuda, DropoutBackward);
FOLDGRAD_INSTANTIATE(dropout_cuda, DropPathFactors);
FOLDGRAD_INSTANTIATE(dropout_cuda, BiasDropoutResidualForward);
FOLDGRAD_INSTANTIATE(dropout_cuda, BiasDropoutResidualBackward);

}  // namespace foldgrad
