#include "engine/gemm/gemm.h"

#include <algorithm>
#include <atomic>

#include "engine/cpu/vector_width.h"
#include "engine/dispatch.h"
#include "engine/gemm/backends.h"
#include "engine/gemm/pieces.h"

namespace foldgrad {
namespace {

std::atomic<bool> allows_tf32{false};

// ThreadSanitizer cannot see inside oneDNN and OpenBLAS, so builds with it run only our own loops.
#ifdef __SANITIZE_THREAD__
constexpr bool kLibraries = false;
#else
constexpr bool kLibraries = true;
#endif

void check_stride(const char* matrix, std::int64_t stride, std::int64_t row) {
  FOLDGRAD_CHECK(stride >= row, "gemm: the row stride of {} must be at least {}, the number of stored columns, got {}",
                 matrix, row, stride);
}

// Throws the std::invalid_argument that gemm() documents. `g` must be resolved.
void check(DType dtype, const Gemm& g, const void* bias) {
  FOLDGRAD_CHECK(is_floating(dtype), "gemm: the element type must be f32, f64 or bf16, got {}", name(dtype));
  FOLDGRAD_CHECK(g.m >= 0 && g.n >= 0 && g.k >= 0 && g.batch >= 0,
                 "gemm: sizes must not be negative, got m {}, n {}, k {}, batch {}", g.m, g.n, g.k, g.batch);
  check_stride("A", g.row_stride_a, g.transpose_a ? g.m : g.k);
  check_stride("B", g.row_stride_b, g.transpose_b ? g.k : g.n);
  check_stride("C", g.row_stride_c, g.n);
  FOLDGRAD_CHECK(g.batch_stride_a >= 0 && g.batch_stride_b >= 0 && g.batch_stride_c >= 0,
                 "gemm: batch strides must not be negative, got {} for A, {} for B, {} for C", g.batch_stride_a,
                 g.batch_stride_b, g.batch_stride_c);
  // The matrices may follow each other, or be side by side in the same rows, as attention heads are.
  const bool apart = g.batch_stride_c >= (g.m - 1) * g.row_stride_c + g.n;
  const bool side_by_side = g.batch_stride_c >= g.n && (g.batch - 1) * g.batch_stride_c + g.n <= g.row_stride_c;
  FOLDGRAD_CHECK(g.batch <= 1 || g.m == 0 || g.n == 0 || apart || side_by_side,
                 "gemm: the {} matrices C [{}, {}] with row stride {} must not overlap, got batch stride {}", g.batch,
                 g.m, g.n, g.row_stride_c, g.batch_stride_c);
  FOLDGRAD_CHECK(!bias || g.beta == 0, "gemm: with a bias, beta must be 0, got {}", g.beta);
  FOLDGRAD_CHECK(!g.f32_c || (dtype == DType::bf16 && !bias), "gemm: f32_c needs bf16 matrices and no bias, got {}{}",
                 name(dtype), bias ? " with a bias" : "");
}

// Merges a batch of consecutive inputs that share a weight into one tall product, which every library computes faster.
Gemm merged(Gemm g) {
  const bool tall = !g.transpose_a && g.batch_stride_b == 0 && g.batch_stride_a == g.m * g.row_stride_a &&
                    g.batch_stride_c == g.m * g.row_stride_c;
  if (g.batch == 1 || !tall) return g;
  g.m *= g.batch;
  g.batch = 1;
  return g;
}

template <class T>
void store_bias_cpu(const Gemm& g, T* c, const T* bias) {
  for (std::int64_t s = 0; s < g.batch; ++s)
    for (std::int64_t i = 0; i < g.m; ++i)
      for (std::int64_t j = 0; j < g.n; ++j) c[s * g.batch_stride_c + i * g.row_stride_c + j] = bias[j];
}

// Stores the bias in C, so that the product is added to it. This loses no precision, since the bias has C's type.
void begin_with_bias([[maybe_unused]] Device device, DType dtype, Gemm& g, GemmPointers& p) {
  if (!p.bias) return;
  dispatch_floating("gemm", dtype, [&]<class T>(Type<T>) {
    FOLDGRAD_RUN(device, store_bias, g, static_cast<T*>(p.c), static_cast<const T*>(p.bias));
  });
  p.bias = nullptr;
  g.beta = 1;
}

// Calls f with p's pointers cast to the element types.
void with_type(DType dtype, const Gemm& g, const GemmPointers& p, const auto& f) {
  dispatch_floating("gemm", dtype, [&]<class T>(Type<T>) {
    const T *a = static_cast<const T*>(p.a), *b = static_cast<const T*>(p.b);
    if constexpr (std::is_same_v<T, bf16>)
      if (g.f32_c) return f(static_cast<float*>(p.c), a, b);
    f(static_cast<T*>(p.c), a, b);
  });
}

// Returns true if our own loops are at least as fast as oneDNN: for large products on Intel processors with AVX-512.
// There they save 3 to 6 % of the time that a training step spends on matrix products, except in CCT-4
// (docs/products.md).
bool own_loops_pay([[maybe_unused]] DType dtype, [[maybe_unused]] const Gemm& g) {
#ifdef __AVX512F__
  static const bool measured = __builtin_cpu_is("intel");
  return measured && dtype == DType::f32 && g.m >= 1024 && std::min(g.n, g.k) >= 256;
#else
  return false;
#endif
}

// Multiplies on this thread.
void multiply_piece(DType dtype, Gemm g, GemmPointers p) {
  [[maybe_unused]] const bool libraries = kLibraries && g.k > 0;
#ifdef FOLDGRAD_HAVE_CBLAS
  // With AVX2, OpenBLAS computes weight gradients faster. On a Zen 3 it reaches 76 to 81 % of the peak for ViT-S/4,
  // where oneDNN reaches 70 to 77 %, and 68 instead of 45 % for 512 x 512 (docs/products.md).
  const bool gradient = dtype == DType::f32 && g.transpose_a && std::min(g.m, g.n) >= 256;
  if (libraries && kVectorBytes == 32 && gradient && cblas_gemm_cpu(dtype, g, p)) return;
#endif
#ifdef FOLDGRAD_HAVE_ONEDNN
  // oneDNN would scale the bias, too. A post-op (binary_add) could add the bias unscaled, but its results are wrong if
  // there are gaps between the matrices C.
  if (g.alpha != 1) begin_with_bias(Device::cpu, dtype, g, p);
  if (libraries && onednn_gemm_cpu(dtype, g, p)) return;
#endif
  begin_with_bias(Device::cpu, dtype, g, p);
#ifdef FOLDGRAD_HAVE_CBLAS
  if (libraries && cblas_gemm_cpu(dtype, g, p)) return;
#endif
  with_type(dtype, g, p, [&](auto* c, auto* a, auto* b) { reference_gemm_cpu(g, c, a, b); });
}

void gemm_cpu(DType dtype, const Gemm& g, GemmPointers p) {
  if (own_loops_pay(dtype, g) && fma_gemm_cpu(dtype, g, p)) return;
#ifdef FOLDGRAD_HAVE_ONEDNN
  const auto panels = kLibraries ? onednn_panels(dtype, g, p) : nullptr;
  p.panels_b = panels.get();
#endif
  multiply_in_pieces(dtype, g, p, multiply_piece);
}

#ifdef FOLDGRAD_HAVE_CUDA
void gemm_cuda(DType dtype, Gemm g, GemmPointers p) {
#ifdef FOLDGRAD_HAVE_CUBLAS
  if (g.k > 0 && cublas_gemm_cuda(dtype, g, p)) return;
  if (g.k > 0 && p.bias) {  // cuBLASLt cannot add a bias of every type
    begin_with_bias(Device::cuda, dtype, g, p);
    if (cublas_gemm_cuda(dtype, g, p)) return;
  }
#endif
  begin_with_bias(Device::cuda, dtype, g, p);
  with_type(dtype, g, p, [&](auto* c, auto* a, auto* b) { tiled_gemm_cuda(g, c, a, b); });
}
#else
void gemm_cuda(DType, const Gemm&, const GemmPointers&) {
  throw std::runtime_error("gemm: this build has no CUDA (FOLDGRAD_CUDA=OFF)");
}
#endif

}  // namespace

void gemm(Device device, DType dtype, const Gemm& g, void* c, const void* a, const void* b, const void* bias) {
  const Gemm whole = resolved(g);
  check(dtype, whole, bias);
  if (whole.m == 0 || whole.n == 0 || whole.batch == 0) return;
  const Gemm product = merged(whole);
  device == Device::cpu ? gemm_cpu(dtype, product, {c, a, b, bias}) : gemm_cuda(dtype, product, {c, a, b, bias});
}

bool gemm_with_row_sums([[maybe_unused]] Device device, DType dtype, const Gemm& g, [[maybe_unused]] void* c,
                        [[maybe_unused]] const void* a, [[maybe_unused]] const void* b, [[maybe_unused]] void* sums) {
  const Gemm product = resolved(g);
  check(dtype, product, nullptr);
#ifdef FOLDGRAD_HAVE_CUBLAS
  const bool any = product.m > 0 && product.n > 0 && product.k > 0;
  if (device == Device::cuda && any && product.batch == 1)
    return cublas_gemm_cuda(dtype, product, {.c = c, .a = a, .b = b, .row_sums = sums});
#endif
  return false;
}

void allow_tf32(bool allowed) { allows_tf32 = allowed; }
bool tf32_allowed() { return allows_tf32; }

const char* gemm_backend(Device device, [[maybe_unused]] DType dtype) {
  if (device == Device::cpu) {
#ifdef FOLDGRAD_HAVE_ONEDNN
    if (kLibraries && dtype != DType::f64) return onednn_name();
#endif
#ifdef FOLDGRAD_HAVE_CBLAS
    if (kLibraries && dtype != DType::bf16) return "CBLAS";
#endif
    return "reference";
  }
#if defined(FOLDGRAD_HAVE_CUBLAS)
  return "cuBLAS";
#elif defined(FOLDGRAD_HAVE_CUDA)
  return "tiled";
#else
  return "none";
#endif
}

}  // namespace foldgrad
