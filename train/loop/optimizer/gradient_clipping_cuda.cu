#include "train/loop/optimizer/gradient_clipping_kernels.h"
#include "train/loop/optimizer/multi_tensor_cuda.h"

namespace foldgrad {
namespace {

// For all threads of a block, which all get the sum.
template <class T>
__device__ double square_sum(const T* values, std::int64_t begin, std::int64_t end) {
  double sum = 0;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) sum += double(values[i]) * double(values[i]);
  return block_sum(sum, dynamic_shared<double>());
}

template <class T>
struct SquarePiece {
  double* squares;

  __device__ void operator()(const NormTensor<T>& t, std::int64_t piece, std::int64_t of_all) const {
    const PieceRange range(piece, t.size);
    const double sum = square_sum(t.grad, range.begin, range.end);
    if (threadIdx.x == 0) squares[of_all] = sum;
  }
};

// One block.
__global__ void clip_factor_kernel(ClipScalars p) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < p.pieces; i += blockDim.x) sum += p.squares[i];
  sum = block_sum(sum, dynamic_shared<double>());
  if (threadIdx.x == 0) {
    *p.norm = std::sqrt(sum);  // [CLIP-1]
    *p.factor = optimizer_math::clip_factor(*p.norm, p.max_norm);
  }
}

template <class T>
struct ClipUnit {
  double clipping;

  __device__ void operator()(const AgcTensor<T>& t, std::int64_t unit, std::int64_t) const {
    T* grad = t.grad + unit * t.columns;
    const T* value = t.value + unit * t.columns;
    const double weight_norm = std::sqrt(square_sum(value, 0, t.columns));
    const double gradient_norm = std::sqrt(square_sum(grad, 0, t.columns));
    const T factor = T(optimizer_math::agc_factor(gradient_norm, optimizer_math::agc_limit(weight_norm, clipping)));
    if (factor == T(1)) return;  // for the whole block, which reaches no further barrier
    for (std::int64_t c = threadIdx.x; c < t.columns; c += blockDim.x) grad[c] *= factor;
  }
};

}  // namespace

template <class T>
void clip_by_norm_cuda(const std::vector<NormTensor<T>>& tensors, const ClipScalars& p) {
  for_each_piece_cuda("clip_by_norm: squares", tensors, SquarePiece<T>{p.squares});
  const Grid one_block{dim3(1), dim3(kMultiTensorThreads), kMultiTensorThreads / kWarp * sizeof(double)};
  launch("clip_by_norm: factor", clip_factor_kernel, one_block, p);
}

template <class T>
void clip_adaptively_cuda(const std::vector<AgcTensor<T>>& tensors, double clipping) {
  for_each_piece_cuda("clip_adaptively", tensors, ClipUnit<T>{clipping});
}

template void clip_by_norm_cuda(const std::vector<NormTensor<float>>&, const ClipScalars&);
template void clip_by_norm_cuda(const std::vector<NormTensor<double>>&, const ClipScalars&);
template void clip_adaptively_cuda(const std::vector<AgcTensor<float>>&, double);
template void clip_adaptively_cuda(const std::vector<AgcTensor<double>>&, double);

}  // namespace foldgrad
