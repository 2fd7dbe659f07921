// Matrix products on the GPU by cuBLAS, for f32, f64 and bf16. Compiled by nvcc 13, but so far run on no GPU.
#include <cublas_v2.h>

#include <algorithm>
#include <climits>
#include <mutex>
#include <stdexcept>
#include <string>

#include "engine/cuda/launch.h"
#include "engine/cuda/runtime/per_device.h"
#include "engine/gemm/backends.h"

namespace foldgrad {
namespace {

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string("gemm: ") + call + " failed: " + cublasGetStatusString(status));
}

cublasHandle_t make_handle() {
  cublasHandle_t handle;
  check(cublasCreate(&handle), "cublasCreate");
  check(cublasSetStream(handle, cuda_stream()), "cublasSetStream");
  // After the stream, which resets the workspace. The size is what NVIDIA recommends for Hopper.
  constexpr std::size_t kWorkspace = std::size_t(32) << 20;
  check(cublasSetWorkspace(handle, memory::system_allocate(Device::cuda, kWorkspace), kWorkspace),
        "cublasSetWorkspace");
  // Without it partial sums of bf16 products may be combined in bf16.
  const auto mode = cublasMath_t(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
  check(cublasSetMathMode(handle, mode), "cublasSetMathMode");
  return handle;
}

}  // namespace

bool cublas_gemm_cuda(DType dtype, const Gemm& g, const GemmPointers& p) {
  const std::int64_t largest = std::max({g.m, g.n, g.k, g.row_stride_a, g.row_stride_b, g.row_stride_c, g.batch});
  if (p.bias || largest > INT_MAX) return false;
  const float alpha_f32 = float(g.alpha), beta_f32 = float(g.beta);
  const bool f64 = dtype == DType::f64;
  const void* alpha_pointer = f64 ? static_cast<const void*>(&g.alpha) : &alpha_f32;
  const void* beta_pointer = f64 ? static_cast<const void*>(&g.beta) : &beta_f32;
  const cudaDataType type = f64 ? CUDA_R_64F : dtype == DType::f32 ? CUDA_R_32F : CUDA_R_16BF;
  const cudaDataType type_c = g.f32_c ? CUDA_R_32F : type;
  const cublasComputeType_t sum_type = f64                                     ? CUBLAS_COMPUTE_64F
                                       : dtype == DType::f32 && tf32_allowed() ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                               : CUBLAS_COMPUTE_32F;

  static std::mutex mutex;  // a handle serves one host thread at a time
  const std::lock_guard lock(mutex);
  const CudaDeviceGuard guard;
  static PerDevice<cublasHandle_t> handles;
  const cublasHandle_t handle = handles.here(make_handle);
  // cuBLAS is column-major and so sees every matrix transposed: C^T = op(B)^T op(A)^T.
  check(cublasGemmStridedBatchedEx(handle, g.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                                   g.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, int(g.n), int(g.m), int(g.k),
                                   alpha_pointer, p.b, type, int(g.row_stride_b), g.batch_stride_b, p.a, type,
                                   int(g.row_stride_a), g.batch_stride_a, beta_pointer, p.c, type_c,
                                   int(g.row_stride_c), g.batch_stride_c, int(g.batch), sum_type, CUBLAS_GEMM_DEFAULT),
        "cublasGemmStridedBatchedEx");
  return true;
}

}  // namespace foldgrad
