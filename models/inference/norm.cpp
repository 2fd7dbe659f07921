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

Tensor parameter_of(Normalizer& norm, const std::string& name, double otherwise) {
  for (const Parameter* p : norm.parameters())
    if (p->name == norm.site() + "." + name) return p->value;
  return Tensor::full({norm.channels()}, otherwise, DType::f64);
}

bool is_constant(const Tensor& t, double value) {
  const std::vector<double> values = t.to(DType::f64).values<double>();
  return std::all_of(values.begin(), values.end(), [value](double v) { return v == value; });
}

}  // namespace

template <class T>
InferenceNorm<T>::InferenceNorm(Normalizer* site, std::int64_t columns) : columns_(columns) {
  if (!site) return;
  Normalizer& norm = *site;
  const auto keep = [](const Tensor& t) { return t.to(dtype_of<X>).clone(); };
  const std::string& kind = norm.info().name;
  if (const std::optional<ChannelAffine> form = norm.affine(); form && norm.info().offline()) {
    center_ = norm.info().inference == Inference::linear;
    identity_ = !center_ && is_constant(form->A, 1) && is_constant(form->B, 0);
    A_ = keep(form->A), B_ = keep(form->B);
    return;
  }
  identity_ = false;
  const bool whole_rms =
      kind == "rmsnorm" && norm.options().text("eps_place") == "inside" && norm.options().number("partial") == 1;
  if (kind == "ln" || kind == "deepnorm" || whole_rms) {
    center_ = !whole_rms, scale_ = true;
    eps_ = norm.options().number("eps");
    A_ = keep(parameter_of(norm, "weight", 1)), B_ = keep(parameter_of(norm, "bias", 0));
    return;
  }
  operation_ = &norm;
}

template <class T>
template <class Y>
void InferenceNorm<T>::normalize(std::int64_t rows, const X* x, Y* y) const {
  const RowNorm<X> norm{
      .A = A_.data<X>(), .B = B_.data<X>(), .columns = columns_, .center = center_, .scale = scale_, .eps = X(eps_)};
  row_norm(norm, rows, x, y);
}

// A sentence at a time where statistics are over its tokens.
template <class T>
template <class Y>
void InferenceNorm<T>::run_operation(const TokenRows& rows, const X* x, Y* y) const {
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    if (begin == end) return;
    Tape tape(/*recording=*/false);
    const Tensor in = Tensor::empty({1, end - begin, columns_}, dtype_of<X>);
    std::copy_n(x + begin * columns_, in.size(), in.data<X>());
    const Tensor out = operation_->apply(tape.constant(in), {}).value();
    convert(out.size(), out.data<X>(), y + begin * columns_);
  };
  if (!operation_->mixes_tokens()) return part(0, rows.count);
  for (std::size_t s = 0; s + 1 < rows.first->size(); ++s) part((*rows.first)[s], (*rows.first)[s + 1]);
}

template <class T>
const T* readable(std::int64_t size, const compute_t<T>* x, T* room) {
  if constexpr (std::is_same_v<T, compute_t<T>>) return x;
  convert(size, x, room);
  return room;
}

template <class T>
const T* InferenceNorm<T>::operator()(const TokenRows& rows, const X* x, T* room) const {
  if (identity_) return readable<T>(rows.count * columns_, x, room);
  operation_ ? run_operation(rows, x, room) : normalize(rows.count, x, room);
  return room;
}

template <class T>
void InferenceNorm<T>::in_place(const TokenRows& rows, X* x) const {
  if (identity_) return;
  operation_ ? run_operation(rows, x, x) : normalize(rows.count, x, x);
}

template class InferenceNorm<float>;
template class InferenceNorm<double>;
template class InferenceNorm<bf16>;
template const float* readable(std::int64_t, const float*, float*);
template const double* readable(std::int64_t, const double*, double*);
template const bf16* readable(std::int64_t, const float*, bf16*);

}  // namespace foldgrad
