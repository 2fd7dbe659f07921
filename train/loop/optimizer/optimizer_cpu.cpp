#include "train/loop/optimizer/multi_tensor_cpu.h"
#include "train/loop/optimizer/optimizer_kernels.h"

namespace foldgrad {

template <class Rule, class T>
void update_cpu(const std::vector<UpdatedTensor<T>>& tensors, const Rule& rule, const double* scale) {
  for_each_piece_cpu(tensors, [&](const UpdatedTensor<T>& tensor, std::int64_t piece, std::int64_t) {
    const PieceRange range(piece, tensor.size);
    const UpdatedTensor<T> t = tensor;  // local copies: through references they could alias what is written
    const Rule f = rule;
    const T gradient_scale = scale ? T(*scale) : T(1);
#pragma omp simd
    for (std::int64_t i = range.begin; i < range.end; ++i) f(t, i, gradient_scale);
    if (!t.rounded) return;
#pragma omp simd
    for (std::int64_t i = range.begin; i < range.end; ++i) t.rounded[i] = bf16(float(t.value[i]));
  });
}

FOLDGRAD_INSTANTIATE_UPDATE(update_cpu, float)
FOLDGRAD_INSTANTIATE_UPDATE(update_cpu, double)

}  // namespace foldgrad
