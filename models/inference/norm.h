// A normalizer at inference, without a tape: one pass over the rows for those that are an affine map of a row that is
// centred, scaled, both or neither; nothing at all for `none`; the operation itself for all others.
//
//   y = A (x - mean) r + B         mean: of the row, or 0
//                                  r: 1 / sqrt(mean of (x - mean)^2 + eps), or 1
#pragma once
#include "models/normalizers/normalizer.h"

namespace foldgrad {

// T: of what products read. What is normalized, the stream of residuals, is compute_t<T>: f32 where T is bf16.
template <class T>
class InferenceNorm {
  using X = compute_t<T>;

 public:
  // Null: nothing. Parameters and state are copied, except of those that run the operation itself: there they must
  // outlive this.
  InferenceNorm(Normalizer* norm, std::int64_t columns);

  // norm(x), in `workspace`, or x itself where that is the same. rows: the sentences of x, without padding.
  const T* operator()(const Segments& rows, const X* x, T* workspace) const;
  void in_place(const Segments& rows, X* x) const;

 private:
  template <class Y>
  void normalize(std::int64_t rows, const X* x, Y* y) const;
  template <class Y>
  void run_operation(const Segments& rows, const X* x, Y* y) const;

  std::int64_t columns_;
  bool identity_ = true, center_ = false, scale_ = false;
  double eps_ = 0;
  Tensor A_, B_;                     // of X
  Normalizer* operation_ = nullptr;  // for all others
};

// x in what products read: in `workspace`, or x itself.
template <class T>
const T* readable(std::int64_t size, const compute_t<T>* x, T* workspace);

}  // namespace foldgrad
