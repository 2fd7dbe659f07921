// Computes f64 products, and some f32 products, with any CBLAS; Debian's default is OpenBLAS.
//
// OpenBLAS 0.3.21 mistakes processors that are newer than itself (Zen 5, some virtual Intel ones) for a Zen 1 or older,
// and then reaches about half of the possible speed. OPENBLAS_CORETYPE=SKYLAKEX in the environment selects its AVX-512
// kernels. We leave that to the user, because a library must not change the environment of its process.
#include <cblas.h>

#include <algorithm>
#include <climits>

#include "engine/gemm/backends.h"
#include "engine/gemm/one_thread.h"

namespace foldgrad {
namespace {

// Calls cblas_sgemm or cblas_dgemm for each matrix of the batch.
template <class T, class Multiply>
void multiply_all(Multiply* multiply, const Gemm& g, const GemmPointers& p) {
  const T *a = static_cast<const T*>(p.a), *b = static_cast<const T*>(p.b);
  T* c = static_cast<T*>(p.c);
  for (std::int64_t s = 0; s < g.batch; ++s)
    multiply(CblasRowMajor, g.transpose_a ? CblasTrans : CblasNoTrans, g.transpose_b ? CblasTrans : CblasNoTrans,
             int(g.m), int(g.n), int(g.k), T(g.alpha), a + s * g.batch_stride_a, int(g.row_stride_a),
             b + s * g.batch_stride_b, int(g.row_stride_b), T(g.beta), c + s * g.batch_stride_c, int(g.row_stride_c));
}

}  // namespace

bool cblas_gemm_cpu(DType dtype, const Gemm& g, const GemmPointers& p) {
  const std::int64_t largest = std::max({g.m, g.n, g.k, g.row_stride_a, g.row_stride_b, g.row_stride_c});
  if (p.bias || largest > INT_MAX || (dtype != DType::f32 && dtype != DType::f64)) return false;
  const OneThread here;
  dtype == DType::f32 ? multiply_all<float>(cblas_sgemm, g, p) : multiply_all<double>(cblas_dgemm, g, p);
  return true;
}

}  // namespace foldgrad
