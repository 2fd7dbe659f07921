// The back ends of gemm(), private to this folder and its tests. .cu files include this header, so it must be C++17.
//
// Each back end takes a checked and resolved product with m, n, k, batch > 0. It returns false if it does not support
// the bias, the element type, the layout, or sizes beyond the range of its integers. C is then unchanged, and the
// caller tries the next back end. CMake decides which back ends exist: FOLDGRAD_HAVE_ONEDNN, FOLDGRAD_HAVE_CBLAS,
// FOLDGRAD_HAVE_CUBLAS.
#pragma once
#include <array>
#include <memory>

#include "engine/gemm/gemm.h"

namespace foldgrad {

struct GemmPointers {
  void* c;
  const void *a, *b, *bias = nullptr;
  void* row_sums = nullptr;        // if not null, receives the row sums of op(A); only cuBLASLt supports this
  const void* panels_b = nullptr;  // op(B) as returned by onednn_panels(); may be null
};

bool onednn_gemm_cpu(DType dtype, const Gemm& g, const GemmPointers& p);
// Returns op(B), which must be bf16, in the order in which oneDNN's kernels read it (panels.h). All pieces of the
// product (pieces.h) use the result; otherwise oneDNN would reorder B for every piece. Returns null if reordering does
// not pay off, or if oneDNN has no kernel for that order.
std::shared_ptr<void> onednn_panels(DType dtype, const Gemm& g, const GemmPointers& p);
const char* onednn_name();  // returns, for example, "oneDNN 2.6.3"
bool cblas_gemm_cpu(DType dtype, const Gemm& g, const GemmPointers& p);
bool fma_gemm_cpu(DType dtype, const Gemm& g, const GemmPointers& p);  // our own f32 loops, with or without a bias
bool cublas_gemm_cuda(DType dtype, const Gemm& g, const GemmPointers& p);

// Returns g with all row strides filled in, and with k = 0 if alpha is 0.
inline Gemm resolved(Gemm g) {
  if (g.row_stride_a == 0) g.row_stride_a = g.transpose_a ? g.m : g.k;
  if (g.row_stride_b == 0) g.row_stride_b = g.transpose_b ? g.k : g.n;
  if (g.row_stride_c == 0) g.row_stride_c = g.n;
  if (g.alpha == 0) g.k = 0;
  return g;
}

// Returns a cache key for an object that a library prepares for a resolved product. `more` lists everything else that
// the object depends on.
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

// Multiplies with plain loops. This is the fallback if no other back end supports the product. T is float, double or
// bf16. C has type T, or float with f32_c. Adds terms in the order of k, for any number of threads.
template <class T, class C>
void reference_gemm_cpu(const Gemm& g, C* c, const T* a, const T* b);
// Multiplies with our own CUDA kernel, which also runs under emulation.
template <class T, class C>
void tiled_gemm_cuda(const Gemm& g, C* c, const T* a, const T* b);

// Stores the bias in every row of every matrix C (bias.cu).
template <class T>
void store_bias_cuda(const Gemm& g, T* c, const T* bias);

}  // namespace foldgrad
