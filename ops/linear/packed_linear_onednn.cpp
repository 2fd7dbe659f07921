// Products with packed weights by oneDNN's matmul primitive; its post-ops apply activation and addition.
#include <algorithm>
#include <bit>

#include "engine/gemm/onednn_versions.h"
#include "engine/gemm/pieces.h"
#include "ops/linear/packed_linear.h"

namespace foldgrad {
namespace {

using Memory = dnnl::memory;

Memory::data_type type_of(DType dtype) {
  return dtype == DType::bf16 ? Memory::data_type::bf16 : Memory::data_type::f32;
}

Memory::desc dense(std::int64_t rows, std::int64_t columns, DType dtype) {
  return {{rows, columns}, type_of(dtype), {columns, 1}};
}

// The activations that oneDNN computes while a product is in registers. For other activations a layer is plain.
struct PostOp {
  Activation activation;
  dnnl::algorithm algorithm;
  float alpha;  // relu's slope below zero, swish's factor
};
constexpr PostOp kPostOps[] = {{Activation::relu, dnnl::algorithm::eltwise_relu, 0},
                               {Activation::silu, dnnl::algorithm::eltwise_swish, 1},
                               {Activation::gelu, dnnl::algorithm::eltwise_gelu_erf, 0},
                               {Activation::gelu_tanh, dnnl::algorithm::eltwise_gelu_tanh, 0}};

// Returns null if oneDNN has no such activation.
const PostOp* post_op_of(Activation f) {
  const auto* found = std::ranges::find(kPostOps, f, &PostOp::activation);
  return found == std::end(kPostOps) ? nullptr : found;
}

struct Sizes {
  std::int64_t n, k;
  bool bias;
  PackedLinearOptions options;
};

dnnl::primitive_attr attributes_of(const PackedLinearOptions& options) {
  dnnl::post_ops after;
  if (options.activation) {
    const PostOp& f = *post_op_of(*options.activation);
    append_eltwise(after, f.algorithm, f.alpha, 0);
  }
  if (options.add != 0) after.append_sum(float(options.add));
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_post_ops(after);
  return attributes;
}

dnnl::matmul::primitive_desc describe(const Sizes& s, std::int64_t rows, const Memory::desc& weights) {
  const Memory::desc x = dense(rows, s.k, s.options.in), y = dense(rows, s.n, s.options.out);
  const Memory::desc bias = dense(1, s.n, DType::f32);
  const auto attributes = attributes_of(s.options);
  const auto faulty = faulty_implementations(resolved({.m = rows, .n = s.n, .k = s.k}));
  return s.bias ? choose_implementation<dnnl::matmul>(attributes, faulty, std::tie(x, weights, bias, y))
                : choose_implementation<dnnl::matmul>(attributes, faulty, std::tie(x, weights, y));
}

// Returns the layout of packed weights. It depends only on n, k and the dtype, so one layout serves any number of rows.
Memory::desc packed_order(const Sizes& s) {
  const Memory::desc any({s.k, s.n}, type_of(s.options.in), Memory::format_tag::any);
  const auto chosen = describe(s, /*rows=*/64, any);
  return chosen ? chosen.weights_desc() : Memory::desc();
}

// Returns the primitive for this number of rows; layers of the same sizes share it.
OnednnPrimitive& product_for(const Sizes& s, std::int64_t rows, const Memory::desc& packed) {
  thread_local OnednnCache<OnednnPrimitive, 6, 4096> products;
  const PackedLinearOptions& o = s.options;
  const std::int64_t types = std::int64_t(o.in) | std::int64_t(o.out) << 8 | std::int64_t(s.bias) << 16;
  return products.of(
      {rows, s.n, s.k, std::bit_cast<std::int64_t>(o.add), types, o.activation ? int(*o.activation) : -1}, [&] {
        const auto chosen = describe(s, rows, packed);
        OnednnPrimitive product;
        product.set<dnnl::matmul>(chosen);
        product.add(DNNL_ARG_SRC, chosen.src_desc());
        product.add(DNNL_ARG_WEIGHTS, packed);
        product.add(DNNL_ARG_DST, chosen.dst_desc());
        if (s.bias) product.add(DNNL_ARG_BIAS, dense(1, s.n, DType::f32));
        return product;
      });
}

// Returns into how many parts the rows of a product are cut. Each has 50 us of work, and at least 32 rows: the weights
// are read again for each.
std::int64_t parts_of_rows(const Sizes& s, std::int64_t rows) {
  const double enough = s.options.in == DType::bf16 ? 2.5e7 : 1e7;
  const auto parts = std::int64_t(2.0 * double(rows) * double(s.n) * double(s.k) / enough);
  return std::clamp<std::int64_t>(std::min(parts, rows / 32), rows > 0, 16);
}

}  // namespace

PackedLinear onednn_packed_linear(const Tensor& weight, const Tensor& bias, const PackedLinearOptions& options) {
  if (options.in == DType::f64 || (options.activation && !post_op_of(*options.activation))) return nullptr;
  const OneThread here;
  const Sizes sizes{weight.shape()[0], weight.shape()[1], bias.defined(), options};
  try {
    const Memory::desc packed = packed_order(sizes);
    if (packed.is_zero()) return nullptr;
    const std::shared_ptr<void> weights = memory::allocate(Device::cpu, packed.get_size());
    const Tensor b = sizes.bias ? bias.to(DType::f32).clone() : Tensor(), w = weight.to(options.in);
    Memory from({{sizes.k, sizes.n}, type_of(options.in), {1, sizes.k}}, onednn_engine(), w.raw());
    Memory to(packed, onednn_engine(), weights.get());
    dnnl::reorder(from, to).execute(onednn_stream(), from, to);
    onednn_stream().wait();
    return [sizes, packed, weights, b](std::int64_t rows, const void* x, void* y) {
      const std::int64_t parts = parts_of_rows(sizes, rows);
      parallel(parts, [&](std::int64_t part) {
        const OneThread here;
        const std::int64_t first = begin_of_part(rows, part, parts, 32), end = begin_of_part(rows, part + 1, parts, 32);
        product_for(sizes, end - first, packed)
            .run({{DNNL_ARG_SRC, static_cast<const char*>(x) + first * sizes.k * size_of(sizes.options.in)},
                  {DNNL_ARG_WEIGHTS, weights.get()},
                  {DNNL_ARG_DST, static_cast<char*>(y) + first * sizes.n * size_of(sizes.options.out)},
                  {DNNL_ARG_BIAS, b.raw()}});
      });
    };
  } catch (const dnnl::error&) {  // for example bf16 on a processor without it
    return nullptr;
  }
}

}  // namespace foldgrad
