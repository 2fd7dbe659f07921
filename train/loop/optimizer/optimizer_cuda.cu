#include "engine/cuda/operands.h"
#include "train/loop/optimizer/multi_tensor_cuda.h"
#include "train/loop/optimizer/optimizer_kernels.h"

namespace foldgrad {
namespace {

// Elements i ... i + N - 1.
template <int N, class Rule, class T>
__device__ __forceinline__ void update_pack(const Rule& rule, const UpdatedTensor<T>& tensor, std::int64_t i,
                                            T gradient_scale) {
  OperandPacks<N> packs;
  UpdatedTensor<T> t = tensor;
  FetchElements<N> fetch{packs, i, 0, true};
  t.operands(fetch);
  FOLDGRAD_UNROLL
  for (int e = 0; e < N; ++e) {
    rule(t, e, gradient_scale);
    t.rounded[e] = bf16(float(t.value[e]));
  }
  UpdatedTensor<T> results = tensor;
  StoreResults<N> store{packs, i, true};
  results.operands(store);
}

// A piece begins at a multiple of a pack, so only the end of the tensor's last one is done one by one.
template <class Rule, class T>
struct UpdatePiece {
  Rule rule;
  const double* scale;

  __device__ void operator()(const UpdatedTensor<T>& t, std::int64_t piece, std::int64_t) const {
    constexpr int N = kPackSize<T>;
    const PieceRange range(piece, t.size);
    const T gradient_scale = scale ? T(*scale) : T(1);
    const bool packed = begin_at_multiples(16, t.value, t.grad, t.first, t.second, t.rounded);
    const std::int64_t packs = packed ? (range.end - range.begin) / N : 0;
    for (std::int64_t k = threadIdx.x; k < packs; k += blockDim.x)
      update_pack<N>(rule, t, range.begin + k * N, gradient_scale);
    for (std::int64_t i = range.begin + packs * N + threadIdx.x; i < range.end; i += blockDim.x)
      update_pack<1>(rule, t, i, gradient_scale);
  }
};
static_assert(kPieceElements % kPackSize<float> == 0);

}  // namespace

template <class Rule, class T>
void update_cuda(const std::vector<UpdatedTensor<T>>& tensors, const Rule& rule, const double* scale) {
  for_each_piece_cuda("optimizer", tensors, UpdatePiece<Rule, T>{rule, scale});
}

FOLDGRAD_INSTANTIATE_UPDATE(update_cuda, float)
FOLDGRAD_INSTANTIATE_UPDATE(update_cuda, double)

}  // namespace foldgrad
