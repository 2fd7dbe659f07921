// Multiplies by packed weights with oneDNN's matmul primitive, whose post-ops apply the activation and the addition.
#include <algorithm>
#include <bit>
#include <cstring>
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

// The activations that oneDNN computes while a product is in registers. Layers with other activations use gemm().
struct PostOp {
  Activation activation;
  dnnl::algorithm algorithm;
  float alpha;  // relu's slope below zero, or swish's factor
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

// Returns the layout of packed weights. The layout depends only on n, k and the dtype, so it serves any number of rows.
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

// Some or all columns of a layer. Their packed weights begin `begin` bytes after the first packed weight of the layer.
struct Columns {
  Sizes sizes;
  std::int64_t first;
  Memory::desc order;
  std::size_t begin;

  Columns(const Sizes& of_layer, std::int64_t first_column, std::int64_t end, std::size_t begin_byte)
      : sizes{end - first_column, of_layer.k, of_layer.bias, of_layer.options},
        first(first_column),
        order(packed_order(sizes)),
        begin(begin_byte) {
    if (order.is_zero()) throw dnnl::error(dnnl_unimplemented, "there is no packed layout for these weights");
  }
  // `weight` is the layer's whole weight, [n, k].
  void pack(const Tensor& weight, char* layer) const {
    Memory from({{sizes.k, sizes.n}, type_of(sizes.options.in), {1, sizes.k}}, onednn_engine(),
                weight.slice(first, first + sizes.n).raw());
    Memory to(order, onednn_engine(), layer + begin);
    dnnl::reorder(from, to).execute(onednn_stream(), from, to);
    onednn_stream().wait();
  }
};

// A packed layer. The rows of a product are divided among the threads. If there are few rows, as when one sentence is
// decoded, the columns are divided instead.
class OnednnPackedLinear {
 public:
  OnednnPackedLinear(const Tensor& weight, const Tensor& bias, const PackedLinearOptions& options)
      : whole_({weight.shape()[0], weight.shape()[1], bias.defined(), options}, 0, weight.shape()[0], 0),
        weights_(memory::allocate(Device::cpu, whole_.order.get_size())),
        bias_(bias.defined() ? bias.to(DType::f32).clone() : Tensor()) {
    const Tensor w = weight.to(options.in);
    char* packed = static_cast<char*>(weights_.get());
    whole_.pack(w, packed);
    const std::int64_t n = whole_.sizes.n, parts = std::min({n / 64, n * whole_.sizes.k / kWeights, kParts});
    if (parts < 2) return;
    std::size_t bytes = 0;
    for (std::int64_t part = 0; part < parts; ++part) {
      columns_.emplace_back(whole_.sizes, begin_of_part(n, part, parts, 64), begin_of_part(n, part + 1, parts, 64),
                            bytes);
      bytes += columns_.back().order.get_size();
    }
    // The parts use the layer's packed weights, which are in huge pages if the layer is large. That works only if the
    // layout stores blocks of columns one after another; so far, every oneDNN layout does. If it does not, we do not
    // divide the columns.
    const auto again = memory::allocate(Device::cpu, bytes);
    for (const Columns& part : columns_) part.pack(w, static_cast<char*>(again.get()));
    if (bytes != whole_.order.get_size() || std::memcmp(again.get(), packed, bytes) != 0) columns_.clear();
  }

  void multiply(std::int64_t rows, const void* x, void* y) const {
    if (rows == 0) return;
    rows >= kFewRows || columns_.empty() ? share_rows(rows, x, y) : share_columns(rows, x, y);
  }

 private:
  static constexpr std::int64_t kFewRows = 128;      // with fewer rows, each thread computes some columns
  static constexpr std::int64_t kRows = 32;          // minimum number of rows per part
  static constexpr std::int64_t kWeights = 1 << 17;  // minimum number of weights per column block
  static constexpr std::int64_t kParts = 4;          // maximum number of column blocks; a oneDNN call takes a few us

  const PackedLinearOptions& options() const { return whole_.sizes.options; }

  // `y` is a dense matrix [rows, number of these columns].
  void multiply(const Columns& columns, std::int64_t rows, const void* x, void* y) const {
    const OneThread here;
    const float* bias = bias_.defined() ? bias_.data<float>() + columns.first : nullptr;
    product_for(columns.sizes, rows, columns.order)
        .run({{DNNL_ARG_SRC, x},
              {DNNL_ARG_WEIGHTS, static_cast<const char*>(weights_.get()) + columns.begin},
              {DNNL_ARG_DST, y},
              {DNNL_ARG_BIAS, bias}});
  }

  void share_rows(std::int64_t rows, const void* x, void* y) const {
    const double enough = options().in == DType::bf16 ? 2.5e7 : 1e7;  // operations in 50 us
    const auto most = std::int64_t(2.0 * double(rows) * double(whole_.sizes.n) * double(whole_.sizes.k) / enough);
    const std::int64_t parts = std::clamp<std::int64_t>(std::min(most, rows / kRows), 1, 16);
    parallel(parts, [&](std::int64_t part) {
      const std::int64_t begin = begin_of_part(rows, part, parts, kRows);
      multiply(whole_, begin_of_part(rows, part + 1, parts, kRows) - begin,
               static_cast<const char*>(x) + begin * whole_.sizes.k * size_of(options().in),
               static_cast<char*>(y) + begin * whole_.sizes.n * size_of(options().out));
    });
  }

  void share_columns(std::int64_t rows, const void* x, void* y) const {
    parallel(std::int64_t(columns_.size()), [&](std::int64_t part) {
      const Columns& some = columns_[std::size_t(part)];
      char* to = static_cast<char*>(y) + some.first * size_of(options().out);
      if (rows == 1) return multiply(some, rows, x, to);
      // If there were gaps between the rows of y, oneDNN would use slow loops.
      const std::int64_t row = some.sizes.n * size_of(options().out), row_y = whole_.sizes.n * size_of(options().out);
      const auto dense = memory::allocate(Device::cpu, std::size_t(rows * row));
      char* own = static_cast<char*>(dense.get());
      if (options().add != 0)
        for (std::int64_t r = 0; r < rows; ++r) std::memcpy(own + r * row, to + r * row_y, row);
      multiply(some, rows, x, own);
      for (std::int64_t r = 0; r < rows; ++r) std::memcpy(to + r * row_y, own + r * row, row);
    });
  }

  Columns whole_;
  std::shared_ptr<void> weights_;
  Tensor bias_;
  std::vector<Columns> columns_;
};

}  // namespace

PackedLinear onednn_packed_linear(const Tensor& weight, const Tensor& bias, const PackedLinearOptions& options) {
  if (options.in == DType::f64 || (options.activation && !post_op_of(*options.activation))) return nullptr;
  const OneThread here;
  try {
    const auto layer = std::make_shared<const OnednnPackedLinear>(weight, bias, options);
    return [layer](std::int64_t rows, const void* x, void* y) { layer->multiply(rows, x, y); };
  } catch (const dnnl::error&) {  // for example bf16 on a processor that lacks it
    return nullptr;
  }
}

}  // namespace foldgrad
