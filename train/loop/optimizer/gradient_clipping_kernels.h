// T is float or double.
#pragma once
#include <vector>

#include "train/loop/optimizer/multi_tensor.h"
#include "train/loop/optimizer/optimizer_math.h"

namespace foldgrad {

template <class T>
struct NormTensor {
  const T* grad;
  std::int64_t size;

  FOLDGRAD_HD std::int64_t pieces() const { return element_pieces(size); }
};

struct ClipScalars {
  double* squares;  // [pieces]: scratch for the sum of each piece
  std::int64_t pieces;
  double* norm;
  double* factor;
  double max_norm;
};

template <class T>
void clip_by_norm_cpu(const std::vector<NormTensor<T>>& tensors, const ClipScalars& p);
template <class T>
void clip_by_norm_cuda(const std::vector<NormTensor<T>>& tensors, const ClipScalars& p);

// A piece is a unit.
template <class T>
struct AgcTensor {
  const T* value;
  T* grad;
  std::int64_t units, columns;

  FOLDGRAD_HD std::int64_t pieces() const { return units; }
};

template <class T>
void clip_adaptively_cpu(const std::vector<AgcTensor<T>>& tensors, double clipping);
template <class T>
void clip_adaptively_cuda(const std::vector<AgcTensor<T>>& tensors, double clipping);

}  // namespace foldgrad
