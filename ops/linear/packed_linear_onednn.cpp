// Products with packed weights by oneDNN's matmul primitive; its post-ops apply activation and addition.
#include <algorithm>
#include <bit>
#include <memory>
#include <vector>

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

// Some columns of a layer: n of the `columns` of y.
struct Sizes {
  std::int64_t n, k, columns;
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
  const std::int64_t row = rows == 1 ? s.n : s.columns;  // a single row has no gaps
  const Memory::desc x = dense(rows, s.k, s.options.in), y({rows, s.n}, type_of(s.options.out), {row, 1});
  const Memory::desc bias = dense(1, s.n, DType::f32);
  const auto attributes = attributes_of(s.options);
  const auto faulty = faulty_implementations(resolved({.m = rows, .n = s.n, .k = s.k, .row_stride_c = row}));
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
  thread_local OnednnCache<OnednnPrimitive, 7, 4096> products;
  const PackedLinearOptions& o = s.options;
  const std::int64_t types = std::int64_t(o.in) | std::int64_t(o.out) << 8 | std::int64_t(s.bias) << 16;
  return products.of(
      {rows, s.n, s.k, s.columns, std::bit_cast<std::int64_t>(o.add), types, o.activation ? int(*o.activation) : -1},
      [&] {
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

// A part of the columns, whose weights lie together. So threads can share a product of few rows.
struct PackedColumns {
  Sizes sizes;
  std::int64_t first;
  Memory::desc order;
  std::shared_ptr<void> weights;
  Tensor bias;
};

// Returns nothing where oneDNN does not cover a part.
std::vector<PackedColumns> pack_columns(const Tensor& weight, const Tensor& bias, const PackedLinearOptions& options) {
  const std::int64_t n = weight.shape()[0], k = weight.shape()[1];
  const std::int64_t parts = std::clamp<std::int64_t>(std::min(n / 64, n * k / (1 << 18)), 1, 8);
  const Tensor w = weight.to(options.in), b = bias.defined() ? bias.to(DType::f32).clone() : Tensor();
  std::vector<PackedColumns> all;
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::int64_t first = begin_of_part(n, part, parts, 64), end = begin_of_part(n, part + 1, parts, 64);
    const Sizes sizes{end - first, k, n, bias.defined(), options};
    const Memory::desc order = packed_order(sizes);
    if (order.is_zero()) return {};
    all.push_back({sizes, first, order, memory::allocate(Device::cpu, order.get_size()),
                   b.defined() ? b.slice(first, end) : Tensor()});
    Memory from({{k, sizes.n}, type_of(options.in), {1, k}}, onednn_engine(), w.slice(first, end).raw());
    Memory to(order, onednn_engine(), all.back().weights.get());
    dnnl::reorder(from, to).execute(onednn_stream(), from, to);
    onednn_stream().wait();
  }
  return all;
}

// Computes some rows of y's columns on this thread.
void multiply_columns(const PackedColumns& columns, std::int64_t rows, const void* x, void* y) {
  const OneThread here;
  product_for(columns.sizes, rows, columns.order)
      .run({{DNNL_ARG_SRC, x},
            {DNNL_ARG_WEIGHTS, columns.weights.get()},
            {DNNL_ARG_DST, y},
            {DNNL_ARG_BIAS, columns.bias.raw()}});
}

// Returns into how many parts the rows of a product are cut, beside its columns: at least 32 rows, and 50 us, each.
std::int64_t rows_of_packed(DType dtype, std::int64_t rows, std::int64_t n, std::int64_t k, std::int64_t across) {
  const double pieces = 2.0 * double(rows) * double(n) * double(k) / (dtype == DType::bf16 ? 5e7 : 1e7);
  return std::clamp<std::int64_t>(std::min(rows / 32, std::int64_t(pieces) / across), rows > 0, 16);
}

}  // namespace

PackedLinear onednn_packed_linear(const Tensor& weight, const Tensor& bias, const PackedLinearOptions& options) {
  if (options.in == DType::f64 || (options.activation && !post_op_of(*options.activation))) return nullptr;
  const OneThread here;
  const std::int64_t n = weight.shape()[0], k = weight.shape()[1];
  try {
    const std::vector<PackedColumns> all = pack_columns(weight, bias, options);
    if (all.empty()) return nullptr;
    return [all, n, k, options](std::int64_t rows, const void* x, void* y) {
      const auto across = std::int64_t(all.size());
      const std::int64_t down = rows_of_packed(options.in, rows, n, k, across);
      parallel(across * down, [&](std::int64_t piece) {
        const PackedColumns& columns = all[std::size_t(piece % across)];
        const std::int64_t first = begin_of_part(rows, piece / across, down, 16),
                           end = begin_of_part(rows, piece / across + 1, down, 16);
        multiply_columns(columns, end - first, static_cast<const char*>(x) + first * k * size_of(options.in),
                         static_cast<char*>(y) + (first * n + columns.first) * size_of(options.out));
      });
    };
  } catch (const dnnl::error&) {  // for example bf16 on a processor without it
    return nullptr;
  }
}

}  // namespace foldgrad
