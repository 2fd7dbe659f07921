// Hides the differences between oneDNN 2 and oneDNN 3.
#pragma once
#include <string_view>
#include <tuple>

#include "engine/gemm/backends.h"
#include "engine/gemm/onednn_engine.h"

namespace foldgrad {

// Returns oneDNN's first implementation of an operation, skipping implementations with `avoided` in their names.
// Returns an empty object if there is none. `operation` holds the arguments that describe the operation, which are the
// same in both versions. Backward operations also need `forward`, the forward operation's implementation.
template <class Primitive, class... Operation, class... Forward>
typename Primitive::primitive_desc choose_implementation(const dnnl::primitive_attr& attributes,
                                                         std::string_view avoided,
                                                         const std::tuple<Operation...>& operation,
                                                         const Forward&... forward) {
  using Chosen = typename Primitive::primitive_desc;
#if DNNL_VERSION_MAJOR < 3
  const auto description = std::make_from_tuple<typename Primitive::desc>(operation);  // next_impl() reads it again
  Chosen chosen(description, attributes, onednn_engine(), forward..., /*allow_empty=*/true);
#else
  auto chosen = std::apply(
      [&](const auto&... described) { return Chosen(onednn_engine(), described..., forward..., attributes, true); },
      operation);
#endif
  while (!avoided.empty() && chosen && std::string_view(chosen.impl_info_str()).find(avoided) != avoided.npos)
    if (!chosen.next_impl()) chosen = {};
  return chosen;
}

// Appends y = f(y) to the post-ops of a product.
inline void append_eltwise(dnnl::post_ops& after, dnnl::algorithm f, float alpha, float beta) {
#if DNNL_VERSION_MAJOR < 3
  after.append_eltwise(/*scale=*/1, f, alpha, beta);
#else
  after.append_eltwise(f, alpha, beta);
#endif
}

// Scales a product by alpha before all other post-ops. If one of these post-ops adds something, oneDNN 3 has only
// generic loops for the product.
inline void scale_product([[maybe_unused]] dnnl::primitive_attr& attributes, [[maybe_unused]] dnnl::post_ops& after,
                          float alpha) {
#if DNNL_VERSION_MAJOR < 3
  attributes.set_output_scales(0, {alpha});
#else
  after.append_eltwise(dnnl::algorithm::eltwise_linear, alpha, 0);
#endif
}

// Returns a string that is in the names of all implementations that compute this product of bf16 or f32 wrongly, or ""
// if there are none.
//   2.x: if 63 terms are left after blocks of 64, AMX code uses tiles that it has not configured, which ends the
//        process with SIGILL or gives wrong numbers (uxlfoundation/oneDNN#1661).
//   3.x: unless the number of terms is a multiple of 32, AMX code multiplies the elements after a row of A by zeros, so
//        a NaN there spreads to other rows of C (#5717, up to 3.14). It also misreads rows with gaps (#3060, until
//        3.7.3) and batches (until 3.9.2). All implementations named brg may mistake a matrix with gaps and one row or
//        column for its transpose (seen in 3.7.2).
inline std::string_view faulty_implementations(const Gemm& g) {
#if DNNL_VERSION_MAJOR < 3
  return g.k % 64 == 63 ? "amx" : "";
#else
  const bool gaps = g.row_stride_a != (g.transpose_a ? g.m : g.k) || g.row_stride_b != (g.transpose_b ? g.k : g.n) ||
                    g.row_stride_c != g.n;
  if (gaps && (g.m == 1 || g.n == 1 || g.k == 1)) return "brg";
  return gaps || g.batch != 1 || g.k % 32 != 0 ? "amx" : "";
#endif
}

}  // namespace foldgrad
