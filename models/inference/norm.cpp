#include "models/inference/norm.h"

#include <algorithm>

#include "engine/cpu/elementwise.h"
#include "ops/layer_norm/row_norm.h"

namespace foldgrad {
namespace {

template <class X, class Y>
void convert(std::int64_t n, const X* x, Y* y) {
  parallel_blocks(n, [=](std::int64_t begin, std::int64_t end) {
    write_cpu(y, begin, end, /*bypass=*/false, [x](std::int64_t i) { return x[i]; });
  });
}

}  // namespace

template <class T>
InferenceNorm<T>::InferenceNorm(Normalizer* site, std::int64_t columns) : columns_(columns) {
  if (!site) return;
  const std::optional<InferenceForm> form = site->inference();
  if (!form || !form->of_row()) {
    identity_ = false;
    operation_ = site;
    return;
  }
  const AffineMap& map = form->map;
  identity_ = form->offline() && !map.scales() && !map.adds();
  center_ = map.centered, scale_ = form->scaled;
  eps_ = form->eps;
  const auto keep = [](const std::vector<double>& v) {
    return Tensor::of({std::int64_t(v.size())}, v).to(dtype_of<X>);
  };
  A_ = keep(map.A), B_ = keep(map.B);
}

template <class T>
template <class Y>
void InferenceNorm<T>::normalize(std::int64_t rows, const X* x, Y* y) const {
  const RowNorm<X> norm{
      .A = A_.data<X>(), .B = B_.data<X>(), .columns = columns_, .center = center_, .scale = scale_, .eps = X(eps_)};
  row_norm(norm, rows, x, y);
}

template <class T>
template <class Y>
void InferenceNorm<T>::run_operation(const Segments& rows, const X* x, Y* y) const {
  if (rows.rows() == 0) return;
  Tape tape(/*recording=*/false);
  const Tensor in = Tensor::empty({rows.rows(), columns_}, dtype_of<X>);
  std::copy_n(x, in.size(), in.data<X>());
  const Tensor out = operation_->apply(tape.constant(in), {.samples = &rows}).value();
  convert(out.size(), out.data<X>(), y);
}

template <class T>
const T* readable(std::int64_t size, const compute_t<T>* x, T* workspace) {
  if constexpr (std::is_same_v<T, compute_t<T>>) return x;
  convert(size, x, workspace);
  return workspace;
}

template <class T>
const T* InferenceNorm<T>::operator()(const Segments& rows, const X* x, T* workspace) const {
  if (identity_) return readable<T>(rows.rows() * columns_, x, workspace);
  operation_ ? run_operation(rows, x, workspace) : normalize(rows.rows(), x, workspace);
  return workspace;
}

template <class T>
void InferenceNorm<T>::in_place(const Segments& rows, X* x) const {
  if (identity_) return;
  operation_ ? run_operation(rows, x, x) : normalize(rows.rows(), x, x);
}

template class InferenceNorm<float>;
template class InferenceNorm<double>;
template class InferenceNorm<bf16>;
template const float* readable(std::int64_t, const float*, float*);
template const double* readable(std::int64_t, const double*, double*);
template const bf16* readable(std::int64_t, const float*, bf16*);

}  // namespace foldgrad
