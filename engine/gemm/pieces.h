// Cuts a product on the CPU into pieces for the threads. A piece is itself a product: some matrices of the batch, or
// some rows and columns of C. A library computes it on one thread. The pieces depend only on the shape, so results do
// not depend on the number of threads.
//
// A library packs B for every piece, which takes as long as multiplying a few rows by B. So pieces have many rows, and
// in bf16 oneDNN receives a B that is already packed (onednn_panels()). Columns are split only if there are few rows.
//
// The gradient of a narrow weight, A^T B, has few rows and columns, but many terms. If C were split, each piece would
// read all of A or all of B again. So we split the terms instead, and add the partial products afterwards.
#pragma once
#include <algorithm>

#include "engine/cpu/threads.h"
#include "engine/gemm/backends.h"
#include "engine/memory.h"

namespace foldgrad {

struct Cut {
  std::int64_t matrices = 1, rows = 1, columns = 1;  // numbers of parts along each dimension
  std::int64_t terms = 1;                            // number of parts of the terms; if above 1, C is not cut
};

// Returns the number of parts into which to cut the terms of a weight gradient: at most `most` and at most 16. If the
// number is below 2, the terms should not be cut. A part has at least 1,024 terms, and its A and B have at least eight
// times as many elements as its partial product, which takes time to write and to add.
inline std::int64_t parts_of_terms(const Gemm& g, std::int64_t most) {
  const std::int64_t least = std::max<std::int64_t>(1024, 8 * g.m * g.n / (g.m + g.n));
  return std::min({g.k / least, most, std::int64_t(16)});
}

// Returns how to cut a resolved product. A piece takes at least 50 us on one core (a Sapphire Rapids Xeon).
inline Cut cut_of(DType dtype, const Gemm& g) {
  const bool bf16 = dtype == DType::bf16;
  const double pieces = 2.0 * double(g.batch) * double(g.m) * double(g.n) * double(g.k) / (bf16 ? 2.5e7 : 1e7);
  const auto most = std::int64_t(std::min(pieces, 64.0));
  if (most < 2) return {};
  if (g.batch >= 8) return {.matrices = std::min(g.batch, most)};
  // Weight gradients, A^T B, have few rows, but many terms per element.
  const std::int64_t height = !g.transpose_a ? 256 : bf16 ? 128 : 64;
  std::int64_t rows = std::clamp<std::int64_t>(g.m / height, 1, std::min<std::int64_t>(most, 16));
  if (rows == 1 && g.transpose_a && g.m >= 64) rows = 2;
  const std::int64_t columns = rows > 1 ? 1 : std::clamp<std::int64_t>(g.n / 64, 1, std::min<std::int64_t>(most, 8));
  // Parts of the terms pay off if there are at least twice as many as parts of C (measured on a Zen 4).
  const bool f32_gradient = g.transpose_a && g.batch == 1 && (g.f32_c || dtype == DType::f32);
  const std::int64_t terms = f32_gradient ? parts_of_terms(g, most) : 1;
  if (terms >= 2 * rows * columns) return {.terms = terms};
  return {g.batch, rows, columns};
}

constexpr std::int64_t kRowUnit = 32;  // each piece begins at a row or term that is a multiple of this number

// Returns where part number `part` begins if n items are split evenly into `parts` parts of whole units.
inline std::int64_t begin_of_part(std::int64_t n, std::int64_t part, std::int64_t parts, std::int64_t unit) {
  const std::int64_t units = (n + unit - 1) / unit;
  return std::min(n, units * part / parts * unit);
}

// Multiplies parts of the terms, each into its own f32 matrix, and adds these matrices to C in order.
void multiply_parts_of_terms(std::int64_t parts, DType dtype, const Gemm& g, const GemmPointers& p,
                             const auto& multiply) {
  const GemmStrides stride(g);
  const std::int64_t elements = g.m * g.n;
  const auto memory = memory::allocate(Device::cpu, std::size_t(parts * elements) * sizeof(float));
  auto* const products = static_cast<float*>(memory.get());
  parallel(parts, [&](std::int64_t part) {
    const std::int64_t t = begin_of_part(g.k, part, parts, kRowUnit);
    Gemm piece = g;
    piece.k = begin_of_part(g.k, part + 1, parts, kRowUnit) - t;
    piece.row_stride_c = g.n;
    piece.beta = 0;
    const auto at = [&](const void* from, std::int64_t i) {
      return static_cast<const char*>(from) + i * std::int64_t(size_of(dtype));
    };
    multiply(
        dtype, piece,
        {products + part * elements, at(p.a, t * stride.a_p), at(p.b, t * stride.b_p), part == 0 ? p.bias : nullptr});
  });
  parallel_ranges(g.m, parts * g.n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      float* const sums = products + i * g.n;
      for (std::int64_t part = 1; part < parts; ++part)
#pragma omp simd
        for (std::int64_t j = 0; j < g.n; ++j) sums[j] += sums[part * elements + j];
      float* const c = static_cast<float*>(p.c) + i * g.row_stride_c;
      for (std::int64_t j = 0; j < g.n; ++j) c[j] = g.beta == 0 ? sums[j] : float(g.beta) * c[j] + sums[j];
    }
  });
}

// Calls multiply(dtype, part, pointers) for each piece of a resolved product, on all threads.
void multiply_in_pieces(DType dtype, const Gemm& g, const GemmPointers& p, const auto& multiply) {
  const Cut cut = cut_of(dtype, g);
  if (cut.terms > 1) return multiply_parts_of_terms(cut.terms, dtype, g, p, multiply);
  const GemmStrides stride(g);
  const auto size = std::int64_t(size_of(dtype)), size_c = g.f32_c ? std::int64_t(sizeof(float)) : size;
  parallel(cut.matrices * cut.rows * cut.columns, [&](std::int64_t piece) {
    const std::int64_t column = piece % cut.columns, row = piece / cut.columns % cut.rows,
                       matrix = piece / cut.columns / cut.rows;
    const std::int64_t s = begin_of_part(g.batch, matrix, cut.matrices, 1),
                       i = begin_of_part(g.m, row, cut.rows, kRowUnit), j = begin_of_part(g.n, column, cut.columns, 16);
    Gemm part = g;
    part.batch = begin_of_part(g.batch, matrix + 1, cut.matrices, 1) - s;
    part.m = begin_of_part(g.m, row + 1, cut.rows, kRowUnit) - i;
    part.n = begin_of_part(g.n, column + 1, cut.columns, 16) - j;
    const auto at = [](const void* from, std::int64_t bytes) { return static_cast<const char*>(from) + bytes; };
    GemmPointers pointers = p;
    pointers.a = at(p.a, (s * g.batch_stride_a + i * stride.a_i) * size);
    pointers.b = at(p.b, (s * g.batch_stride_b + j * stride.b_j) * size);
    pointers.c = const_cast<char*>(at(p.c, (s * g.batch_stride_c + i * g.row_stride_c + j) * size_c));
    if (p.bias) pointers.bias = at(p.bias, j * size);
    multiply(dtype, part, pointers);
  });
}

}  // namespace foldgrad
