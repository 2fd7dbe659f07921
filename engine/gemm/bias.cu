#include "engine/cuda/cells.h"
#include "engine/gemm/backends.h"

namespace foldgrad {
namespace {

// Writes the bias to columns j to j + N - 1 of row i of matrix s.
template <int N, class T>
struct StoreBias {
  T* c;           // [batch, m, n]; rows and matrices may have gaps
  const T* bias;  // [n]
  std::int64_t row_stride, batch_stride;

  __device__ void operator()(std::int64_t s, std::int64_t i, std::int64_t j) const {
    store_pack(c + s * batch_stride + i * row_stride + j, load_cached_pack<N>(bias + j));
  }
};

template <int N, class T>
void store(const Gemm& g, T* c, const T* bias) {
  cells_cuda<N>("gemm: bias", g.batch, g.m, g.n, StoreBias<N, T>{c, bias, g.row_stride_c, g.batch_stride_c});
}

}  // namespace

template <class T>
void store_bias_cuda(const Gemm& g, T* c, const T* bias) {
  constexpr int N = kPackSize<T>;
  const bool packs = g.n % N == 0 && g.row_stride_c % N == 0 && (g.batch == 1 || g.batch_stride_c % N == 0);
  if (packs && aligned_for_packs(16, c, bias))
    store<N>(g, c, bias);
  else
    store<1>(g, c, bias);
}

template void store_bias_cuda(const Gemm&, float*, const float*);
template void store_bias_cuda(const Gemm&, double*, const double*);
template void store_bias_cuda(const Gemm&, bf16*, const bf16*);

}  // namespace foldgrad
