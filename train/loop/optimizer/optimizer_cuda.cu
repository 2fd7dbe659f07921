#include "train/loop/optimizer/multi_tensor_cuda.h"
#include "train/loop/optimizer/optimizer_kernels.h"

namespace foldgrad {
namespace {

template <class Rule, class T>
struct UpdatePiece {
  Rule rule;
  const double* scale;

  __device__ void operator()(const UpdatedTensor<T>& t, std::int64_t piece, std::int64_t) const {
    const PieceRange range(piece, t.size);
    const T factor = scale ? T(*scale) : T(1);
    for (std::int64_t i = range.begin + threadIdx.x; i < range.end; i += blockDim.x) rule(t, i, factor);
  }
};

}  // namespace

template <class Rule, class T>
void update_cuda(const std::vector<UpdatedTensor<T>>& tensors, const Rule& rule, const double* scale) {
  for_each_piece_cuda("optimizer", tensors, UpdatePiece<Rule, T>{rule, scale});
}

FOLDGRAD_INSTANTIATE_UPDATE(update_cuda, float)
FOLDGRAD_INSTANTIATE_UPDATE(update_cuda, double)

}  // namespace foldgrad
