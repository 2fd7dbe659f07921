// Multiplies f32 and bf16 matrices with oneDNN, usually with its matmul primitive.
#include <cpuid.h>
#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <string>

#include "engine/cpu/transpose.h"
#include "engine/gemm/backends.h"
#include "engine/gemm/onednn_versions.h"
#include "engine/gemm/panels.h"
#include "engine/gemm/pieces.h"

namespace foldgrad {
namespace {

// Returns true on virtual machines that announce AMX but hide the palettes that it needs (CPUID leaf 0x1d). oneDNN 2.6
// then generates tile instructions that raise SIGILL, unless it is limited to AVX-512.
bool amx_is_broken() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  const bool announced = d >> 22 & 1;  // AMX-BF16
  return announced && !(__get_cpuid_count(0x1d, 0, &a, &b, &c, &d) && a > 0);
}

// Describes [rows, columns] of each matrix of the batch. Without a batch there is no batch axis, since oneDNN has more
// kernels for plain matrices. With batch stride 0 the axis has size 1, which means broadcasting.
dnnl::memory::desc matrices(DType dtype, const Gemm& g, std::int64_t rows, std::int64_t columns,
                            std::int64_t batch_stride, std::int64_t row_stride, std::int64_t column_stride) {
  const auto type = dtype == DType::f32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
  if (g.batch == 1) return {{rows, columns}, type, {row_stride, column_stride}};
  return {{batch_stride == 0 ? 1 : g.batch, rows, columns}, type, {batch_stride, row_stride, column_stride}};
}

OnednnPrimitive make_product(DType dtype, const Gemm& g, bool with_bias, bool with_panels) {
  const GemmStrides stride(g);
  const auto a = matrices(dtype, g, g.m, g.k, g.batch_stride_a, stride.a_i, stride.a_p);
  const auto b =
      with_panels ? dnnl::memory::desc({g.k, g.n}, dnnl::memory::data_type::bf16, dnnl::memory::format_tag::BA16a64b2a)
                  : matrices(dtype, g, g.k, g.n, g.batch_stride_b, stride.b_p, stride.b_j);
  const auto c = matrices(g.f32_c ? DType::f32 : dtype, g, g.m, g.n, g.batch_stride_c, g.row_stride_c, 1);
  const auto bias = matrices(dtype, g, 1, g.n, 0, g.n, 1);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops after;
  if (g.alpha != 1) scale_product(attributes, after, float(g.alpha));
  if (g.beta != 0) after.append_sum(float(g.beta));
  attributes.set_post_ops(after);

  OnednnPrimitive product;
  try {
    const auto faulty = faulty_implementations(g);
    const auto chosen = with_bias ? choose_implementation<dnnl::matmul>(attributes, faulty, std::tie(a, b, bias, c))
                                  : choose_implementation<dnnl::matmul>(attributes, faulty, std::tie(a, b, c));
    if (onednn_covers(chosen)) product.set<dnnl::matmul>(chosen);
  } catch (const dnnl::error&) {  // oneDNN has no such matmul, for example if A and B both have batch stride 0
  }
  product.add(DNNL_ARG_DST, c);
  product.add(DNNL_ARG_SRC, a);
  product.add(DNNL_ARG_WEIGHTS, b);
  if (with_bias) product.add(DNNL_ARG_BIAS, bias);
  return product;
}

// Returns this thread's primitive for a product.
OnednnPrimitive& product_of(DType dtype, const Gemm& g, bool with_bias, bool with_panels) {
  thread_local OnednnCache<OnednnPrimitive, 15, 1024> products;
  // alpha and beta are compiled into the primitive, too.
  const auto key = key_of(dtype, g, std::bit_cast<std::int64_t>(g.alpha), std::bit_cast<std::int64_t>(g.beta),
                          with_bias, with_panels);
  return products.of(key, [&] { return make_product(dtype, g, with_bias, with_panels); });
}

// Computes A^T B for single f32 matrices, as in weight gradients. oneDNN's BLAS call packs a transposed A faster than
// its matmul does, which saves a tenth of the time.
bool transposed_sgemm(DType dtype, const Gemm& g, const GemmPointers& p) {
  if (dtype != DType::f32 || !g.transpose_a || g.batch != 1 || p.bias) return false;
  onednn_engine();  // limits the instruction set if necessary
  const auto* a = static_cast<const float*>(p.a);
  const auto* b = static_cast<const float*>(p.b);
  return dnnl_sgemm('T', g.transpose_b ? 'T' : 'N', g.m, g.n, g.k, float(g.alpha), a, g.row_stride_a, b, g.row_stride_b,
                    float(g.beta), static_cast<float*>(p.c), g.row_stride_c) == dnnl_success;
}

// Stores to[c, r] = from[r, c]. Rows of `from` are `from_row` elements apart; `to` is dense. The last square of a row
// or column overlaps the one before it, unless the matrix is smaller than a square.
void transpose(const bf16* from, std::int64_t rows, std::int64_t columns, std::int64_t from_row, bf16* to) {
  using Bits = std::uint16_t;
  constexpr std::int64_t kSquare = kLanes<Bits>;
  if (rows < kSquare || columns < kSquare) {
    for (std::int64_t c = 0; c < columns; ++c)
      for (std::int64_t r = 0; r < rows; ++r) to[c * rows + r] = from[r * from_row + c];
    return;
  }
  for (std::int64_t next_c = 0; next_c < columns; next_c += kSquare)
    for (std::int64_t next_r = 0; next_r < rows; next_r += kSquare) {
      const std::int64_t c = std::min(next_c, columns - kSquare), r = std::min(next_r, rows - kSquare);
      transpose_square(reinterpret_cast<Bits*>(to + c * rows + r), rows,
                       reinterpret_cast<const Bits*>(from + r * from_row + c), from_row, kSquare);
    }
}

// Returns `g` with the strides of a dense copy of op(A).
Gemm of_transposed_copy(Gemm g) {
  g.transpose_a = false;
  g.row_stride_a = g.k;
  g.batch_stride_a = g.batch_stride_a == 0 ? 0 : g.m * g.k;
  return g;
}

// Computes A^T B in bf16 from a copy of A^T. The stored rows of A are parts of wider rows, for which oneDNN does not
// use AMX.
bool multiply_transposed_copy(const Gemm& g, const GemmPointers& p) {
  const std::int64_t matrices = g.batch_stride_a == 0 ? 1 : g.batch;
  const auto copy = memory::allocate(Device::cpu, std::size_t(matrices * g.m * g.k) * sizeof(bf16));
  const auto* a = static_cast<const bf16*>(p.a);
  auto* to = static_cast<bf16*>(copy.get());
  for (std::int64_t s = 0; s < matrices; ++s)
    transpose(a + s * g.batch_stride_a, g.k, g.m, g.row_stride_a, to + s * g.m * g.k);
  GemmPointers with_copy = p;
  with_copy.a = to;
  return onednn_gemm_cpu(DType::bf16, of_transposed_copy(g), with_copy);
}

bool run(OnednnPrimitive& product, const GemmPointers& p, const void* b) {
  product.run({{DNNL_ARG_DST, p.c}, {DNNL_ARG_SRC, p.a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_BIAS, p.bias}});
  return true;
}

}  // namespace

dnnl::engine& onednn_engine() {
  static dnnl::engine engine = [] {
    if (amx_is_broken()) dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core_bf16);  // must precede the first primitive
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

bool onednn_gemm_cpu(DType dtype, const Gemm& g, const GemmPointers& p) {
  if ((dtype != DType::f32 && dtype != DType::bf16) || (p.bias && g.alpha != 1)) return false;
  const OneThread here;
  if (transposed_sgemm(dtype, g, p)) return true;
  if (dtype == DType::bf16 && g.transpose_a && g.row_stride_a > g.m) return multiply_transposed_copy(g, p);
  if (p.panels_b)
    if (OnednnPrimitive& product = product_of(dtype, g, p.bias, /*with_panels=*/true); product.primitive)
      return run(product, p, p.panels_b);
  OnednnPrimitive& product = product_of(dtype, g, p.bias, /*with_panels=*/false);
  return product.primitive && run(product, p, p.b);
}

std::shared_ptr<void> onednn_panels(DType dtype, const Gemm& g, const GemmPointers& p) {
  const Cut cut = cut_of(dtype, g);
  // If there are only two pieces, one for each of two threads, panels save nothing. Panels of more than 4 MiB would be
  // read from memory again for each piece, while oneDNN uses a part of B for all rows at once.
  const std::size_t bytes = std::size_t(elements_of_panels(g)) * sizeof(bf16);
  const bool pays = dtype == DType::bf16 && cut.rows > 2 && bytes <= std::size_t(4) << 20;
  if (!pays || g.batch > 1 || g.n < kPanel || g.k == 0 || (p.bias && g.alpha != 1)) return nullptr;
  const OneThread here;
  Gemm piece = g.transpose_a ? of_transposed_copy(g) : g;
  piece.m = begin_of_part(g.m, 1, cut.rows, kRowUnit);
  if (!product_of(dtype, piece, p.bias, /*with_panels=*/true).primitive) return nullptr;
  auto panels = memory::allocate(Device::cpu, bytes);
  pack_panels(static_cast<bf16*>(panels.get()), static_cast<const bf16*>(p.b), g);
  return panels;
}

const char* onednn_name() {
  static const std::string name = [] {
    const dnnl::version_t& version = *dnnl::version();
    return fmt::format("oneDNN {}.{}.{}", version.major, version.minor, version.patch);
  }();
  return name.c_str();
}

}  // namespace foldgrad
