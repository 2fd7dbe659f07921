// Matrix products, computed by libraries or by our own loops:
//
//   C[i] = alpha op(A[i]) op(B[i]) + beta C[i] + bias,   i = 0 ... batch - 1
//
//   op(A): [m, k], op(B): [k, n], C: [m, n], all row-major; op transposes or does nothing.
//
// On cpu, oneDNN computes bf16 products, and CBLAS computes f64 products. f32 products are computed by oneDNN, CBLAS or
// our own loops (gemm_fma.cpp): gemm.cpp chooses by rules that follow measurements (docs/products.md). If none of these
// supports a product, reference_gemm_cpu computes it.
// On cuda, cuBLASLt computes the products. Without it, and under emulation, the kernel of tiled.cu does. Every path
// multiplies bf16 numbers exactly and accumulates in f32.
#pragma once
#include <cstdint>

#include "engine/device.h"
#include "engine/dtype.h"

namespace foldgrad {

struct Gemm {
  bool transpose_a = false, transpose_b = false;  // if true, A is stored as [k, m], or B as [n, k]
  std::int64_t m = 0, n = 0, k = 0;
  // Elements between the starts of two stored rows; 0 means dense.
  std::int64_t row_stride_a = 0, row_stride_b = 0, row_stride_c = 0;
  std::int64_t batch = 1;
  // Elements between the starts of two matrices of the batch. With stride 0 for A or B, all products share that matrix.
  std::int64_t batch_stride_a = 0, batch_stride_b = 0, batch_stride_c = 0;
  double alpha = 1, beta = 0;  // an operand scaled by 0 is not read: C may be uninitialised, A and B may hold NaN
  bool f32_c = false;          // for bf16 operands without a bias: C is f32, so that no sum is rounded to bf16
};

// Computes the products above. c, a and b are on `device` and have the type dtype (f32, f64 or bf16); with f32_c, c is
// f32. bias is null or [n] of type dtype. It is added to every row before the result is stored, is not scaled by alpha,
// and requires beta = 0. C must not overlap an operand. Sizes may be zero: k = 0 gives beta C + bias. Equal calls give
// bit-identical results, for any number of threads. Throws std::invalid_argument for any other dtype, negative sizes or
// batch strides, row strides shorter than a row, matrices C that overlap, a bias together with beta or f32_c, and f32_c
// with a dtype other than bf16. Throws std::runtime_error for cuda in a build without it. Thread-safe.
void gemm(Device device, DType dtype, const Gemm& g, void* c, const void* a, const void* b, const void* bias = nullptr);

// Multiplies without a bias, and sums each row of op(A) in the same pass: sums_i = sum_p op(A)[i, p]. `sums` has m
// numbers of C's type. So one call computes the gradients of a weight and of its bias. Only cuBLASLt can do this.
// Without it, the function does nothing and returns false, and the caller computes the two separately.
bool gemm_with_row_sums(Device device, DType dtype, const Gemm& g, void* c, const void* a, const void* b, void* sums);

// Returns the name of the back end that computes most shapes, for benchmarks and reports: "oneDNN 2.6.3", "CBLAS",
// "reference", "cuBLAS", "tiled", or "none" for cuda in a build without CUDA.
const char* gemm_backend(Device device, DType dtype);

// Allows all later f32 products on a GPU, on any thread, to round their operands to TensorFloat-32, which has 10
// fraction bits instead of 23 and is several times as fast. This is off by default. It affects cuBLAS and cuDNN; the
// CPU and the emulation do not support TensorFloat-32.
void allow_tf32(bool allowed);
bool tf32_allowed();

}  // namespace foldgrad
