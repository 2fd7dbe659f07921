// Matrix products of f32, f64 and bf16 on the GPU, with cuBLASLt.
//
// We ask the library for an algorithm once per shape and keep the answer, so that equal calls give bit-identical
// results. We exclude algorithms that add partial sums in bf16 or with atomics.
#include <cublasLt.h>

#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

#include "engine/cuda/launch.h"
#include "engine/cuda/runtime/device_guard.h"
#include "engine/gemm/backends.h"

namespace foldgrad {
namespace {

constexpr std::size_t kWorkspace = std::size_t(32) << 20;  // NVIDIA's recommendation for Hopper
constexpr std::size_t kMostPlans = 16384;                  // about 1 KiB each; all are dropped once there are this many

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string("gemm: ") + call + " failed: " + cublasLtGetStatusString(status));
}

// Deleter that frees a cuBLAS object with `destroy`.
template <class T, cublasStatus_t (*destroy)(T)>
struct Destroy {
  using pointer = T;
  void operator()(T owned) const { destroy(owned); }
};
template <class T, cublasStatus_t (*destroy)(T)>
using Owned = std::unique_ptr<T, Destroy<T, destroy>>;
using Description = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

template <class T>
void set(const Description& d, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check(cublasLtMatmulDescSetAttribute(d.get(), attribute, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
}
template <class T>
void set(const Layout& l, cublasLtMatrixLayoutAttribute_t attribute, const T& value) {
  check(cublasLtMatrixLayoutSetAttribute(l.get(), attribute, &value, sizeof value), "cublasLtMatrixLayoutSetAttribute");
}
template <class T>
void set(const Preference& p, cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
  check(cublasLtMatmulPreferenceSetAttribute(p.get(), attribute, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
}

cudaDataType type_of(DType dtype) {
  return dtype == DType::f64 ? CUDA_R_64F : dtype == DType::f32 ? CUDA_R_32F : CUDA_R_16BF;
}
cublasComputeType_t sum_type(DType dtype) {
  if (dtype == DType::f64) return CUBLAS_COMPUTE_64F;
  return dtype == DType::f32 && tf32_allowed() ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

// Returns the largest power of two, up to 256, that divides an address.
std::uint32_t alignment(const void* at) {
  std::uint32_t bytes = 256;
  while (reinterpret_cast<std::uintptr_t>(at) % bytes != 0) bytes /= 2;
  return bytes;
}

// Describes a stored row-major matrix [rows, columns]. The library is column-major, so it sees the transpose.
Layout layout(cudaDataType type, std::int64_t rows, std::int64_t columns, std::int64_t row_stride, const Gemm& g,
              std::int64_t batch_stride) {
  cublasLtMatrixLayout_t made;
  check(cublasLtMatrixLayoutCreate(&made, type, std::uint64_t(columns), std::uint64_t(rows), row_stride),
        "cublasLtMatrixLayoutCreate");
  Layout l(made);
  set(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, std::int32_t(g.batch));
  set(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, batch_stride);
  return l;
}

// Returns true if the library may add a bias, or beta * C, to a product that it has already rounded to bf16. Version
// 13.1 does so on an H100 unless the stored rows consist of whole packs of 16 bytes.
bool rounds_twice(DType dtype, const Gemm& g, const GemmPointers& p) {
  const auto whole_packs = [](const void* at, std::int64_t row, std::int64_t row_stride, std::int64_t batch_stride) {
    return alignment(at) >= 16 && row % 8 == 0 && row_stride % 8 == 0 && batch_stride % 8 == 0;
  };
  return dtype == DType::bf16 && !g.f32_c && (p.bias || g.beta != 0) &&
         !(whole_packs(p.a, g.transpose_a ? g.m : g.k, g.row_stride_a, g.batch_stride_a) &&
           whole_packs(p.b, g.transpose_b ? g.k : g.n, g.row_stride_b, g.batch_stride_b) &&
           whole_packs(p.c, g.n, g.row_stride_c, g.batch_stride_c));
}

// The library's description of a product. The library is column-major, so it computes C^T = op(B)^T op(A)^T.
struct Plan {
  Description description;
  Layout a, b, c;
  cublasLtMatmulAlgo_t algorithm;
  bool covered = false;
};

cublasLtEpilogue_t epilogue_of(const GemmPointers& p) {
  if (p.row_sums) return CUBLASLT_EPILOGUE_BGRADB;  // sums over the library's B, which is our A
  return p.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

// Returns the bias that the epilogue adds, or the sums that it writes; both have C's type.
const void* vector_of(const GemmPointers& p) { return p.row_sums ? p.row_sums : p.bias; }
// Sets the address of the bias or of the sums, which may differ from call to call.
void set_vector(Plan& plan, const GemmPointers& p) {
  if (const void* vector = vector_of(p)) set(plan.description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
}

Plan make_plan(cublasLtHandle_t handle, DType dtype, const Gemm& g, const GemmPointers& p) {
  Plan plan;
  cublasLtMatmulDesc_t description;
  check(cublasLtMatmulDescCreate(&description, sum_type(dtype), dtype == DType::f64 ? CUDA_R_64F : CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  plan.description.reset(description);
  set(plan.description, CUBLASLT_MATMUL_DESC_TRANSA, g.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(plan.description, CUBLASLT_MATMUL_DESC_TRANSB, g.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (const auto epilogue = epilogue_of(p); epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
    set(plan.description, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    set_vector(plan, p);
  }
  const cudaDataType type = type_of(dtype);
  plan.a = g.transpose_a ? layout(type, g.k, g.m, g.row_stride_a, g, g.batch_stride_a)
                         : layout(type, g.m, g.k, g.row_stride_a, g, g.batch_stride_a);
  plan.b = g.transpose_b ? layout(type, g.n, g.k, g.row_stride_b, g, g.batch_stride_b)
                         : layout(type, g.k, g.n, g.row_stride_b, g, g.batch_stride_b);
  plan.c = layout(g.f32_c ? CUDA_R_32F : type, g.m, g.n, g.row_stride_c, g, g.batch_stride_c);

  cublasLtMatmulPreference_t made;
  check(cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
  const Preference preference(made);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(p.b));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(p.a));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(p.c));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(p.c));
  cublasLtMatmulHeuristicResult_t best;
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle, plan.description.get(), plan.b.get(), plan.a.get(), plan.c.get(),
                                     plan.c.get(), preference.get(), 1, &best, &found);
  plan.covered = status == CUBLAS_STATUS_SUCCESS && found == 1 && best.state == CUBLAS_STATUS_SUCCESS;
  if (plan.covered) plan.algorithm = best.algo;
  return plan;
}

// The library's handle for one device, with all plans made for the device.
struct Library {
  using Key = std::array<std::int64_t, 16>;

  Library() : workspace(memory::system_allocate(Device::cuda, kWorkspace)) {
    check(cublasLtCreate(&handle), "cublasLtCreate");
  }
  Plan& plan(DType dtype, const Gemm& g, const GemmPointers& p) {
    const Key key = key_of(dtype, g, sum_type(dtype), epilogue_of(p), alignment(p.a), alignment(p.b), alignment(p.c));
    if (const auto known = plans.find(key); known != plans.end()) return known->second;
    if (plans.size() == kMostPlans) plans.clear();
    return plans.emplace(key, make_plan(handle, dtype, g, p)).first->second;
  }

  cublasLtHandle_t handle = nullptr;
  void* workspace;
  std::map<Key, Plan> plans;
};

}  // namespace

bool cublas_gemm_cuda(DType dtype, const Gemm& g, const GemmPointers& p) {
  if (g.batch > INT32_MAX || rounds_twice(dtype, g, p)) return false;
  // We cannot tell the library how the bias or the sums are aligned, and it may access them in packs of 16 bytes.
  if (alignment(vector_of(p)) < 16) return false;
  const float alpha_f32 = float(g.alpha), beta_f32 = float(g.beta);
  const bool f64 = dtype == DType::f64;
  const void* alpha = f64 ? static_cast<const void*>(&g.alpha) : &alpha_f32;
  const void* beta = f64 ? static_cast<const void*>(&g.beta) : &beta_f32;

  static std::mutex mutex;  // guards the plans and the workspace
  const std::lock_guard lock(mutex);
  const CudaDeviceGuard guard;
  static PerDevice<Library*> libraries;  // never destroyed, since the driver may shut down first
  Library& library = *libraries.here([] { return new Library; });
  Plan& plan = library.plan(dtype, g, p);
  if (!plan.covered) return false;
  set_vector(plan, p);
  check(cublasLtMatmul(library.handle, plan.description.get(), alpha, p.b, plan.b.get(), p.a, plan.a.get(), beta, p.c,
                       plan.c.get(), p.c, plan.c.get(), &plan.algorithm, library.workspace, kWorkspace, cuda_stream()),
        "cublasLtMatmul");
  return true;
}

}  // namespace foldgrad
