#include "engine/cpu/threads.h"
#include "train/loop/optimizer/optimizer_kernels.h"

namespace foldgrad {
namespace {

// Calls body(tensor, piece, index) for every piece of every tensor, on all threads. `index` counts all pieces.
template <class T, class Body>
void for_each_piece_cpu(const std::vector<T>& tensors, const Body& body) {
  std::vector<std::int64_t> offsets{0};
  for (const T& t : tensors) offsets.push_back(offsets.back() + t.pieces());
  parallel_ranges(offsets.back(), kPieceElements, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t piece = begin; piece < end; ++piece) {
      const int k = tensor_of_piece(offsets.data(), int(tensors.size()), piece);
      body(tensors[k], piece - offsets[k], piece);
    }
  });
}

template <class T>
double square_sum(const T* values, std::int64_t begin, std::int64_t end) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = begin; i < end; ++i) sum += double(values[i]) * double(values[i]);
  return sum;
}

}  // namespace

template <class Rule, class T>
void update_cpu(const std::vector<UpdatedTensor<T>>& tensors, const Rule& rule, const double* scale) {
  for_each_piece_cpu(tensors, [&](const UpdatedTensor<T>& tensor, std::int64_t piece, std::int64_t) {
    const PieceRange range(piece, tensor.size);
    const UpdatedTensor<T> t = tensor;  // local copies, since references could alias the written values
    const Rule f = rule;
    const T gradient_scale = scale ? T(*scale) : T(1);
#pragma omp simd
    for (std::int64_t i = range.begin; i < range.end; ++i) f(t, i, gradient_scale);
    if (!t.rounded) return;
#pragma omp simd
    for (std::int64_t i = range.begin; i < range.end; ++i) t.rounded[i] = bf16(float(t.value[i]));
  });
}

template <class T>
void clip_by_norm_cpu(const std::vector<NormTensor<T>>& tensors, const ClipScalars& p) {
  for_each_piece_cpu(tensors, [&p](const NormTensor<T>& t, std::int64_t piece, std::int64_t of_all) {
    const PieceRange range(piece, t.size);
    p.squares[of_all] = square_sum(t.grad, range.begin, range.end);
  });
  double sum = 0;
  for (std::int64_t i = 0; i < p.pieces; ++i) sum += p.squares[i];
  *p.norm = std::sqrt(sum);  // [CLIP-1]
  *p.factor = clip_factor(*p.norm, p.max_norm);
}

template <class T>
void clip_adaptively_cpu(const std::vector<AgcTensor<T>>& tensors, double clipping) {
  for_each_piece_cpu(tensors, [clipping](const AgcTensor<T>& t, std::int64_t unit, std::int64_t) {
    T* grad = t.grad + unit * t.columns;
    const double weight_norm = std::sqrt(square_sum(t.value + unit * t.columns, 0, t.columns));
    const double gradient_norm = std::sqrt(square_sum(grad, 0, t.columns));
    const T factor = T(agc_factor(gradient_norm, weight_norm, clipping));
    if (factor == T(1)) return;
#pragma omp simd
    for (std::int64_t c = 0; c < t.columns; ++c) grad[c] *= factor;
  });
}

FOLDGRAD_INSTANTIATE_OPTIMIZER(cpu, float)
FOLDGRAD_INSTANTIATE_OPTIMIZER(cpu, double)

}  // namespace foldgrad
