// The back ends of gemm(), for the other files of this folder and their tests. C++17, since .cu files include it.
//
// Each back end takes a checked and resolved product with m, n, k, batch > 0. It returns false for a case that it does
// not cover, such as a bias, an element type, a layout, or sizes beyond its integers. Then C still holds the values
// that beta needs, and the caller asks the next back end. CMake decides which back ends exist: FOLDGRAD_HAVE_ONEDNN,
// FOLDGRAD_HAVE_CBLAS, FOLDGRAD_HAVE_CUBLAS.
#pragma once
#include <array>
#include <memory>

#include "engine/gemm/gemm.h"

namespace foldgrad {

struct GemmPointers {
  void* c;
  const void *a, *b, *bias = nullptr;
  void* row_sums = nullptr;        // of op(A): only for cuBLASLt
  const void* panels_b = nullptr;  // the result of onednn_panels()
};

bool onednn_gemm_cpu(DType dtype, const Gemm& g, const GemmPointers& p);
// Returns op(B) of bf16 in the order that oneDNN's kernels read (panels.h), for all pieces of the product (pieces.h):
// without it, oneDNN reorders B in every piece. Null if reordering does not pay, or if oneDNN has no kernel for that
// order.
std::shared_ptr<void> onednn_panels(DType dtype, const Gemm& g, const GemmPointers& p);
const char* onednn_name();  // "oneDNN 2.6.3"
bool cblas_gemm_cpu(DType dtype, const Gemm& g, const GemmPointers& p);
bool fma_gemm_cpu(DType dtype, const Gemm& g, const GemmPointers& p);  // multiplies f32 with our loops; takes a bias
bool cublas_gemm_cuda(DType dtype, const Gemm& g, const GemmPointers& p);

// Returns the same product with every row stride written out and the zero scale's operands dropped.
inline Gemm resolved(Gemm g) {
  if (g.row_stride_a == 0) g.row_stride_a = g.transpose_a ? g.m : g.k;
  if (g.row_stride_b == 0) g.row_stride_b = g.transpose_b ? g.k : g.n;
  if (g.row_stride_c == 0) g.row_stride_c = g.n;
  if (g.alpha == 0) g.k = 0;
  return g;
}

// Returns a key of a resolved product, for caches of objects that a library prepares for it. These may also depend on
// `more`.
template <class... More>
std::array<std::int64_t, 11 + sizeof...(More)> key_of(DType dtype, const Gemm& g, More... more) {
  return {std::int64_t(dtype) << 3 | g.transpose_a << 2 | g.transpose_b << 1 | g.f32_c,
          g.m,
          g.n,
          g.k,
          g.row_stride_a,
          g.row_stride_b,
          g.row_stride_c,
          g.batch,
          g.batch_stride_a,
          g.batch_stride_b,
          g.batch_stride_c,
          std::int64_t(more)...};
}

// The strides of a resolved product, in elements: from op(A)[i, p] to op(A)[i + 1, p] and to op(A)[i, p + 1], and from
// op(B)[p, j] to op(B)[p + 1, j] and to op(B)[p, j + 1].
struct GemmStrides {
  std::int64_t a_i, a_p, b_p, b_j;

  FOLDGRAD_HD explicit GemmStrides(const Gemm& g)
      : a_i(g.transpose_a ? 1 : g.row_stride_a),
        a_p(g.transpose_a ? g.row_stride_a : 1),
        b_p(g.transpose_b ? 1 : g.row_stride_b),
        b_j(g.transpose_b ? g.row_stride_b : 1) {}
};

// Multiplies with plain loops if no other back end takes the product. T is float, double or bf16. C has type T, or
// float with f32_c. Adds terms in the order of k, for any number of threads.
template <class T, class C>
void reference_gemm_cpu(const Gemm& g, C* c, const T* a, const T* b);
// Multiplies with our own CUDA kernel, also under emulation.
template <class T, class C>
void tiled_gemm_cuda(const Gemm& g, C* c, const T* a, const T* b);

// Stores the bias in every row of every matrix C: bias.cu.
template <class T>
void store_bias_cuda(const Gemm& g, T* c, const T* bias);

}  // namespace foldgrad
