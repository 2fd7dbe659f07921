#include "train/loop/optimizer/gradient_clipping_kernels.h"
#include "train/loop/optimizer/multi_tensor_cpu.h"

namespace foldgrad {
namespace {

template <class T>
double square_sum(const T* values, std::int64_t begin, std::int64_t end) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = begin; i < end; ++i) sum += double(values[i]) * double(values[i]);
  return sum;
}

}  // namespace

template <class T>
void clip_by_norm_cpu(const std::vector<NormTensor<T>>& tensors, const ClipScalars& p) {
  for_each_piece_cpu(tensors, [&p](const NormTensor<T>& t, std::int64_t piece, std::int64_t of_all) {
    const PieceRange range(piece, t.size);
    p.squares[of_all] = square_sum(t.grad, range.begin, range.end);
  });
  double sum = 0;
  for (std::int64_t i = 0; i < p.pieces; ++i) sum += p.squares[i];
  *p.norm = std::sqrt(sum);  // [CLIP-1]
  *p.factor = optimizer_math::clip_factor(*p.norm, p.max_norm);
}

template <class T>
void clip_adaptively_cpu(const std::vector<AgcTensor<T>>& tensors, double clipping) {
  for_each_piece_cpu(tensors, [clipping](const AgcTensor<T>& t, std::int64_t unit, std::int64_t) {
    T* grad = t.grad + unit * t.columns;
    const double weight_norm = std::sqrt(square_sum(t.value + unit * t.columns, 0, t.columns));
    const double gradient_norm = std::sqrt(square_sum(grad, 0, t.columns));
    const T factor = T(optimizer_math::agc_factor(gradient_norm, optimizer_math::agc_limit(weight_norm, clipping)));
    if (factor == T(1)) return;
#pragma omp simd
    for (std::int64_t c = 0; c < t.columns; ++c) grad[c] *= factor;
  });
}

template void clip_by_norm_cpu(const std::vector<NormTensor<float>>&, const ClipScalars&);
template void clip_by_norm_cpu(const std::vector<NormTensor<double>>&, const ClipScalars&);
template void clip_adaptively_cpu(const std::vector<AgcTensor<float>>&, double);
template void clip_adaptively_cpu(const std::vector<AgcTensor<double>>&, double);

}  // namespace foldgrad
