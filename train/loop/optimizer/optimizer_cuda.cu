#include "engine/cuda/operands.h"
#include "engine/cuda/reduce.h"
#include "train/loop/optimizer/optimizer_kernels.h"

namespace foldgrad {
namespace {

constexpr int kMultiTensorThreads = 256;  // not tuned

// The parameters of a launch with one block for each piece of up to 512 tensors. A table in device memory would have to
// be copied there before every step, since gradients may move, and the copy would wait for the GPU.
template <class T, class F>
struct MultiTensor {
  static constexpr int kTensors = 512;
  F f;
  T tensors[kTensors];
  std::int32_t offsets[kTensors + 1];  // index of each tensor's first piece within this launch
  int count;
  std::int64_t pieces_before;  // number of pieces in earlier launches
};

template <class T, class F>
__global__ void multi_tensor_kernel(MultiTensor<T, F> p) {
  const std::int32_t piece = std::int32_t(blockIdx.x);
  const int k = tensor_of_piece(p.offsets, p.count, piece);
  const T tensor = p.tensors[k];
  p.f(tensor, std::int64_t(piece - p.offsets[k]), p.pieces_before + piece);
}

// Calls f(tensor, piece, index) on all threads of a block for every piece. `index` counts the pieces of all tensors. A
// block has one double of shared memory per warp.
template <class T, class F>
void for_each_piece_cuda(const char* name, const std::vector<T>& tensors, const F& f) {
  using Params = MultiTensor<T, F>;
  static_assert(sizeof(Params) <= 32764,
                "GPUs of architecture 70 and newer limit the parameters of a kernel to this size");
  std::int64_t before = 0;
  for (std::size_t begin = 0; begin < tensors.size(); begin += Params::kTensors) {
    Params p{f, {}, {}, 0, before};
    for (std::size_t k = begin; k < tensors.size() && p.count < Params::kTensors; ++k) {
      p.tensors[p.count] = tensors[k];
      p.offsets[p.count + 1] = p.offsets[p.count] + std::int32_t(tensors[k].pieces());
      ++p.count;
    }
    const std::int32_t pieces = p.offsets[p.count];
    const Grid grid{pieces, dim3(kMultiTensorThreads), kMultiTensorThreads / kWarp * sizeof(double)};
    launch(name, multi_tensor_kernel<T, F>, grid, p);
    before += pieces;
  }
}

// Updates elements i ... i + N - 1.
template <int N, class Rule, class T>
__device__ __forceinline__ void update_pack(const Rule& rule, const UpdatedTensor<T>& tensor, std::int64_t i,
                                            T gradient_scale) {
  OperandPacks<N> packs;
  const UpdatedTensor<T> t = visited(tensor, FetchElements<N>{{packs}, i, 0, true});
  FOLDGRAD_UNROLL
  for (int e = 0; e < N; ++e) {
    rule(t, e, gradient_scale);
    t.rounded[e] = bf16(float(t.value[e]));
  }
  visited(tensor, StoreResults<N>{{packs}, i, true});
}

// Updates a piece. Pieces begin at multiples of a pack, so only a tensor's end is updated element by element.
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

// Returns the sum of n squares to all threads of a block. All must call it; they may then overwrite the values.
template <class T>
__device__ double square_sum(const T* values, std::int64_t n) {
  constexpr int N = kPackSize<T>;
  const std::int64_t packs = begin_at_multiples(16, values) ? n / N : 0;
  double sum = 0;
  FOLDGRAD_UNROLL_BY_4
  for (std::int64_t k = threadIdx.x; k < packs; k += blockDim.x) {
    const Pack<T, N> pack = load_own_pack<N>(values + k * N);
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e) sum += double(pack.v[e]) * double(pack.v[e]);
  }
  for (std::int64_t i = packs * N + threadIdx.x; i < n; i += blockDim.x) sum += double(values[i]) * double(values[i]);
  return block_sum(sum, dynamic_shared<double>());
}

template <class T>
struct SquarePiece {
  double* squares;

  __device__ void operator()(const NormTensor<T>& t, std::int64_t piece, std::int64_t of_all) const {
    const PieceRange range(piece, t.size);
    const double sum = square_sum(t.grad + range.begin, range.end - range.begin);
    if (threadIdx.x == 0) squares[of_all] = sum;
  }
};

// Uses one block.
__global__ void clip_factor_kernel(ClipScalars p) {
  double sum = 0;
  FOLDGRAD_UNROLL_BY_4
  for (std::int64_t i = threadIdx.x; i < p.pieces; i += blockDim.x) sum += p.squares[i];
  sum = block_sum(sum, dynamic_shared<double>());
  if (threadIdx.x == 0) {
    *p.norm = std::sqrt(sum);  // [CLIP-1]
    *p.factor = clip_factor(*p.norm, p.max_norm);
  }
}

template <class T>
struct ClipUnit {
  double clipping;

  __device__ void operator()(const AgcTensor<T>& t, std::int64_t unit, std::int64_t) const {
    T* grad = t.grad + unit * t.columns;
    const T* value = t.value + unit * t.columns;
    const double weight_norm = std::sqrt(square_sum(value, t.columns));
    const double gradient_norm = std::sqrt(square_sum(grad, t.columns));
    const T factor = T(agc_factor(gradient_norm, weight_norm, clipping));
    if (factor == T(1)) return;  // all threads of the block return, and no barrier follows
    for (std::int64_t c = threadIdx.x; c < t.columns; c += blockDim.x) grad[c] *= factor;
  }
};

}  // namespace

template <class Rule, class T>
void update_cuda(const std::vector<UpdatedTensor<T>>& tensors, const Rule& rule, const double* scale) {
  for_each_piece_cuda("optimizer", tensors, UpdatePiece<Rule, T>{rule, scale});
}

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

FOLDGRAD_INSTANTIATE_OPTIMIZER(cuda, float)
FOLDGRAD_INSTANTIATE_OPTIMIZER(cuda, double)

}  // namespace foldgrad
