// Small matrix products on tensor cores. mma.m16n8k16 multiplies bf16 and accumulates in float; ldmatrix loads the
// operands from shared memory. Both need compute capability 8.0. This header is for .cu files.
//
// All 32 lanes of a warp make each of these calls together. Each lane holds a part of each matrix, a fragment, in
// registers. Two neighbouring bf16 values share a register; the first is in the lower half. For lane l:
//
//   A [16, 16]: register r has row l / 4 + 8 (r % 2) and columns l % 4 * 2 + 8 (r / 2) and the next
//   B [16, 8]:  register r has rows l % 4 * 2 + 8 r and the next, and column l / 4
//   C [16, 8]:  number r has row l / 4 + 8 (r / 2) and column l % 4 * 2 + r % 2
//
// So the fragments of two neighbouring matrices C, rounded to bf16, form a fragment of a matrix A. Source: PTX ISA 9.0,
// sections on mma.m16n8k16 and ldmatrix.
#pragma once
#include "engine/cuda/launch.h"
#include "engine/dtype.h"

namespace foldgrad {

struct FragmentA {
  std::uint32_t r[4];
};
struct FragmentB {
  std::uint32_t r[2];
};
struct FragmentC {
  float r[4];
};

#ifdef __CUDACC__

// c += a b
__device__ __forceinline__ void mma(FragmentC& c, const FragmentA& a, const FragmentB& b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c.r[0]), "+f"(c.r[1]), "+f"(c.r[2]), "+f"(c.r[3])
      : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b.r[0]), "r"(b.r[1]));
}

// Loads four 8 x 8 matrices of bf16. Lane 8 m + i passes the address of row i of matrix m: 16 aligned bytes of shared
// memory. Register m of lane l then holds two numbers of matrix m: those in row l / 4, column l % 4 * 2 and the next
// column. The transposed form loads the numbers in column l / 4, row l % 4 * 2 and the next row.
__device__ __forceinline__ void load_matrices(std::uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(unsigned(__cvta_generic_to_shared(row)))
               : "memory");
}
__device__ __forceinline__ void load_matrices_transposed(std::uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(unsigned(__cvta_generic_to_shared(row)))
               : "memory");
}

// Rounds two numbers to the nearest bf16, ties to even, and packs them into one register of a fragment.
__device__ __forceinline__ std::uint32_t pack_bf16(float lower, float upper) {
  std::uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(upper), "f"(lower));
  return packed;
}

#else

inline void mma(FragmentC& c, const FragmentA& a, const FragmentB& b, const CallSite& site = call_site("mma")) {
  emulation::mma(site, c.r, a.r, b.r);
}

inline void load_matrices(std::uint32_t (&r)[4], const void* row, const CallSite& site = call_site("ldmatrix")) {
  emulation::ldmatrix(site, r, row, false);
}
inline void load_matrices_transposed(std::uint32_t (&r)[4], const void* row,
                                     const CallSite& site = call_site("ldmatrix.trans")) {
  emulation::ldmatrix(site, r, row, true);
}

inline std::uint32_t pack_bf16(float lower, float upper) {
  return std::uint32_t(bf16(lower).bits) | std::uint32_t(bf16(upper).bits) << 16;
}

#endif

}  // namespace foldgrad
