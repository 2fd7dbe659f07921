#include "engine/cuda/column_sums.h"
#include "ops/dyt/dyt_kernels.h"

namespace foldgrad {
namespace {

template <class Visit, class T>
FOLDGRAD_HD void visit_operands(Visit& visit, DytForward<T>& p) {
  visit.result(p.y);
  visit.element(p.x);
  visit.column(p.gamma);
  visit.column(p.beta);
}
template <class Visit, class T>
FOLDGRAD_HD void visit_operands(Visit& visit, DytBackward<T>& p) {
  visit.result(p.dx);
  visit.element(p.dy);
  visit.element(p.x);
  visit.column(p.gamma);
}

// Reads the scalars on the device, where they are: the host never waits for them.
template <class Element, class T>
struct OnDevice {
  typename Element::Params p;
  std::int64_t rows = p.rows, columns = p.columns;

  __device__ Element element() const { return {p, DytScalars<T>::read(p)}; }
  __device__ void operator()(std::int64_t i, std::int64_t c) const { element()(i, c); }
  template <class Visit>
  FOLDGRAD_HD void operands(Visit& visit) {
    visit_operands(visit, p);
  }
};

template <class Element, class T>
struct SumsOnDevice : OnDevice<Element, T> {
  using Value = compute_t<T>;
  static constexpr int kSums = Element::kSums;

  __device__ void add(std::int64_t r, std::int64_t c, Value (&sums)[kSums]) const { this->element().add(r, c, sums); }
  __device__ void put(std::int64_t c, const Value (&sums)[kSums]) const { this->element().put(c, sums); }
};

template <class F, class T>
void forward(const DytForward<T>& p) {
  matrix_cuda<kPackSize<T>>("dyt forward", p.rows, p.columns, OnDevice<DytElement<T, F>, T>{p});
}
template <class F, class T>
void backward(const DytBackward<T>& p) {
  const SumsOnDevice<DytBackwardElement<T, F>, T> k{{p}};
  if (p.dx) matrix_cuda<kPackSize<T>>("dyt backward of x", p.rows, p.columns, k);
  packed_column_sums_cuda<kPackSize<T>>("dyt backward of the parameters", k);
}

}  // namespace

template <class T>
void dyt_cuda(const DytForward<T>& p) {
  p.shift ? forward<dyt_math::Erf>(p) : forward<dyt_math::Tanh>(p);
}
template <class T>
void dyt_cuda(const DytBackward<T>& p) {
  p.shift ? backward<dyt_math::Erf>(p) : backward<dyt_math::Tanh>(p);
}

FOLDGRAD_INSTANTIATE(dyt_cuda, DytForward);
FOLDGRAD_INSTANTIATE(dyt_cuda, DytBackward);

}  // namespace foldgrad
