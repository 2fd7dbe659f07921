// The back ends of gemm(), for the other files of this folder and their tests. C++17, since .cu files include it.
//
// Each takes a checked and resolved product with m, n, k, batch > 0 and returns false for a case that its library does
// not cover: another element type, a layout, sizes beyond its integers. C still holds what beta needs, and the caller
// asks the next one.
// Which of them exist is decided at configure time: FOLDGRAD_HAVE_ONEDNN, FOLDGRAD_HAVE_CBLAS, FOLDGRAD_HAVE_CUBLAS.
#pragma once
#include "engine/gemm/gemm.h"

namespace foldgrad {

struct GemmPointers {
  void* c;
  const void *a, *b, *bias;
};

bool onednn_gemm_cpu(DType dtype, const Gemm& g, const GemmPointers& p);
const char* onednn_name();  // "oneDNN 2.6.3"
bool cblas_gemm_cpu(DType dtype, const Gemm& g, const GemmPointers& p);
bool cublas_gemm_cuda(DType dtype, const Gemm& g, const GemmPointers& p);

// The same product with every row stride written out and the zero scale's operands dropped.
inline Gemm resolved(Gemm g) {
  if (g.row_stride_a == 0) g.row_stride_a = g.transpose_a ? g.m : g.k;
  if (g.row_stride_b == 0) g.row_stride_b = g.transpose_b ? g.k : g.n;
  if (g.row_stride_c == 0) g.row_stride_c = g.n;
  if (g.alpha == 0) g.k = 0;
  return g;
}

// Elements from op(A)[i, p] to op(A)[i + 1, p] and to op(A)[i, p + 1]; likewise op(B)[p, j]. Of a resolved product.
struct GemmStrides {
  std::int64_t a_i, a_p, b_p, b_j;

  FOLDGRAD_HD explicit GemmStrides(const Gemm& g)
      : a_i(g.transpose_a ? 1 : g.row_stride_a),
        a_p(g.transpose_a ? g.row_stride_a : 1),
        b_p(g.transpose_b ? 1 : g.row_stride_b),
        b_j(g.transpose_b ? g.row_stride_b : 1) {}
};

// C = bias in every row of every matrix, on the host: for libraries that can then add their product to it. That loses
// nothing, since the bias is of C's type.
template <class T>
void store_bias(const Gemm& g, T* c, const T* bias) {
  for (std::int64_t s = 0; s < g.batch; ++s)
    for (std::int64_t i = 0; i < g.m; ++i)
      for (std::int64_t j = 0; j < g.n; ++j) c[s * g.batch_stride_c + i * g.row_stride_c + j] = bias[j];
}
// The same on the GPU: bias.cu.
template <class T>
void store_bias_cuda(const Gemm& g, T* c, const T* bias);

}  // namespace foldgrad
