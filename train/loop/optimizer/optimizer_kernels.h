// Kernels for optimizers, the weight average and gradient clipping. Each makes one pass over many tensors. Every tensor
// is cut into pieces, and the pieces of all tensors are numbered consecutively, so that threads share the work evenly
// for any sizes. A kernel's tensor type has a member function pieces(), which returns the number of pieces of a tensor.
// T is float or double. The CPU and CUDA kernels share the functions with the formulas of optimizer.h,
// gradient_clipping.h and weight_average.h.
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

#include "engine/dtype.h"

namespace foldgrad {

// Calls body(float()) for f32 parameters, body(double()) for f64.
template <class Body>
void dispatch_parameters(DType dtype, const Body& body) {
  dtype == DType::f32 ? body(float()) : body(double());
}

// Elements per piece in passes that treat a tensor as a vector. Not tuned.
constexpr std::int64_t kPieceElements = 4096;

FOLDGRAD_HD inline std::int64_t element_pieces(std::int64_t size) {
  return (size + kPieceElements - 1) / kPieceElements;
}

// The elements [begin, end) of piece number `piece` in a tensor of `size` elements.
struct PieceRange {
  std::int64_t begin, end;
  FOLDGRAD_HD PieceRange(std::int64_t piece, std::int64_t size)
      : begin(piece * kPieceElements), end(begin + kPieceElements < size ? begin + kPieceElements : size) {}
};

// Returns the tensor that a piece belongs to: the last k < tensors with offsets[k] <= piece. It is never empty.
template <class Index>
FOLDGRAD_HD int tensor_of_piece(const Index* offsets, int tensors, Index piece) {
  int low = 0, high = tensors;  // offsets[low] <= piece < offsets[high]
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (offsets[middle] <= piece)
      low = middle;
    else
      high = middle;
  }
  return low;
}

// One parameter and its state.
template <class T>
struct UpdatedTensor {
  T* value;
  const T* grad;
  T* first;  // first moments; null if the rule does not use them
  T* second;
  std::int64_t size;
  bf16* rounded = nullptr;  // if not null, also receives the new value, rounded

  FOLDGRAD_HD std::int64_t pieces() const { return element_pieces(size); }

  // Visits the operands, so that kernels can access packs of elements (engine/cuda/operands.h).
  template <class Visit>
  FOLDGRAD_HD void operands(Visit& visit) {
    visit.update(value);
    visit.element(grad);
    visit.update(first);
    visit.update(second);
    visit.result(rounded);
  }
};

// Rules with their constants for one step of a parameter group. operator()(t, i, scale) updates element i with the
// gradient scale * t.grad[i].

template <class T>
struct AdamRule {
  T one_minus_beta1, one_minus_beta2;  // computed in double: 1 - 0.999f would be 1.3e-5 too large
  T eps, rate, root_scale, decay;

  FOLDGRAD_HD void operator()(const UpdatedTensor<T>& t, std::int64_t i, T scale) const {
    const T p = t.value[i], g = scale * t.grad[i];
    const T m = t.first[i] + one_minus_beta1 * (g - t.first[i]);        // [ADAM-1]
    const T v = t.second[i] + one_minus_beta2 * (g * g - t.second[i]);  // [ADAM-2]
    t.first[i] = m;
    t.second[i] = v;
    // Adds decay and step before subtracting them from p: if p changed twice, rounding would lose a small decay.
    t.value[i] = p - (decay * p + rate * m / (std::sqrt(v) * root_scale + eps));  // [ADAM-3, ADAM-4]
  }
};

template <class T>
struct SgdRule {
  T momentum, rate, decay;
  bool nesterov;

  FOLDGRAD_HD void operator()(const UpdatedTensor<T>& t, std::int64_t i, T scale) const {
    const T d = scale * t.grad[i] + decay * t.value[i];  // [SGD-1]
    T direction = d;
    if (momentum > 0) {
      const T m = momentum * t.first[i] + d;  // [SGD-2]
      t.first[i] = m;
      direction = nesterov ? d + momentum * m : m;  // [SGD-3]
    }
    t.value[i] = t.value[i] - rate * direction;  // [SGD-4]
  }
};

// The rule of averages: `value` is the average and `grad` the parameter.
template <class T>
struct AverageRule {
  T rate;

  FOLDGRAD_HD void operator()(const UpdatedTensor<T>& t, std::int64_t i, T) const {
    t.value[i] = t.value[i] + rate * (t.grad[i] - t.value[i]);  // [EMA-1, AVG-3]
  }
};

// `scale` is one number on the tensors' device, so that a factor computed there need not be copied. Null means 1.
template <class Rule, class T>
void update_cpu(const std::vector<UpdatedTensor<T>>& tensors, const Rule& rule, const double* scale);
template <class Rule, class T>
void update_cuda(const std::vector<UpdatedTensor<T>>& tensors, const Rule& rule, const double* scale);

template <class T>
struct NormTensor {
  const T* grad;
  std::int64_t size;

  FOLDGRAD_HD std::int64_t pieces() const { return element_pieces(size); }
};

struct ClipScalars {
  double* squares;  // [pieces]: scratch space for the sum of each piece
  std::int64_t pieces;
  double* norm;
  double* factor;
  double max_norm;
};

// Returns NaN for a NaN norm, which must not look like a small gradient.
FOLDGRAD_HD inline double clip_factor(double norm, double max_norm) {
  const double factor = max_norm / (norm + 1e-6);
  return factor > 1 ? 1 : factor;  // [CLIP-2]
}

template <class T>
void clip_by_norm_cpu(const std::vector<NormTensor<T>>& tensors, const ClipScalars& p);
template <class T>
void clip_by_norm_cuda(const std::vector<NormTensor<T>>& tensors, const ClipScalars& p);

// A tensor whose units are its pieces.
template <class T>
struct AgcTensor {
  const T* value;
  T* grad;
  std::int64_t units, columns;

  FOLDGRAD_HD std::int64_t pieces() const { return units; }
};

// Returns the factor by which a unit's gradient is multiplied.
FOLDGRAD_HD inline double agc_factor(double gradient_norm, double weight_norm, double clipping) {
  const double limit = clipping * (weight_norm > 1e-3 ? weight_norm : 1e-3);                 // [AGC-1]
  return gradient_norm > limit ? limit / (gradient_norm > 1e-6 ? gradient_norm : 1e-6) : 1;  // [AGC-2]
}

template <class T>
void clip_adaptively_cpu(const std::vector<AgcTensor<T>>& tensors, double clipping);
template <class T>
void clip_adaptively_cuda(const std::vector<AgcTensor<T>>& tensors, double clipping);

}  // namespace foldgrad

#define FOLDGRAD_INSTANTIATE_OPTIMIZER(device, T)                                                            \
  template void update_##device(const std::vector<UpdatedTensor<T>>&, const AdamRule<T>&, const double*);    \
  template void update_##device(const std::vector<UpdatedTensor<T>>&, const SgdRule<T>&, const double*);     \
  template void update_##device(const std::vector<UpdatedTensor<T>>&, const AverageRule<T>&, const double*); \
  template void clip_by_norm_##device(const std::vector<NormTensor<T>>&, const ClipScalars&);                \
  template void clip_adaptively_##device(const std::vector<AgcTensor<T>>&, double);
