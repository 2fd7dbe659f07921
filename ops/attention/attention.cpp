#include "ops/attention/attention.h"

#include <cmath>

#include "engine/cpu/column_sums.h"
#include "engine/graph/description.h"
#include "engine/graph/onnx_graph.h"
#include "engine/node_grads.h"
#include "ops/attention/attention_kernels.h"
#include "ops/dropout/dropout_kernels.h"
#include "ops/total/total.h"

namespace foldgrad {
namespace {

// One of q, k and v as the kernels see it: a group of H * D columns of an operand.
struct Part {
  Tensor tensor;
  int operand, group;

  template <class T>
  const T* data(const AttentionShape& shape) const {
    return begin(static_cast<const T*>(tensor.data<T>()), shape);
  }
  template <class T>
  T* begin(T* first, const AttentionShape& shape) const {
    return first ? first + group * shape.y_row() : first;
  }
  template <class T>
  GradOut<T> begin(const GradOut<T>& first, const AttentionShape& shape) const {
    return {begin(first.data, shape), first.mode};
  }
};

struct Operands {
  Part q, k, v;
  Segments queries, keys;
  Tensor bias = {};  // operand 1; undefined if there is no bias
};

struct AttentionNode {
  const char* op;
  Operands in;
  Tensor y, L;
  AttentionShape shape;

  const char* name() const { return op; }

  // Differentiates attention [ATT-1, ATT-2, ATT-3]: computes dv [ATT-4], ds [ATT-5], dq and dk [ATT-6] and dbias
  // [ATT-9].
  void backward(NodeGrads& grads) {
    dispatch_floating(op, y.dtype(), [&]<class T>(Type<T>) {
      using Value = compute_t<T>;
      const Tensor delta = Tensor::empty(L.shape(), L.dtype(), L.device());
      const GradOut<T> of_q = grads.out<T>(in.q.operand);
      const GradOut<T> of_k = in.k.operand == in.q.operand ? of_q : grads.out<T>(in.k.operand);
      const GradOut<T> of_v = in.v.operand == in.k.operand ? of_k : grads.out<T>(in.v.operand);
      const bool of_bias = in.bias.defined() && grads.wanted(1);
      const std::int64_t columns = of_bias ? in.bias.size() : 0, rows = shape.segments / shape.bias_groups;
      const Tensor ds = of_bias ? Tensor::empty({rows, columns}, L.dtype(), L.device()) : Tensor();
      const AttentionBackward<T> p{.dq = in.q.begin(of_q, shape),
                                   .dk = in.k.begin(of_k, shape),
                                   .dv = in.v.begin(of_v, shape),
                                   .delta = delta.data<Value>(),
                                   .ds = data_or_null<Value>(ds),
                                   .dy = grads.dy().data<T>(),
                                   .y = y.data<T>(),
                                   .q = in.q.data<T>(shape),
                                   .k = in.k.data<T>(shape),
                                   .v = in.v.data<T>(shape),
                                   .bias = data_or_null<T>(in.bias),
                                   .L = L.data<Value>(),
                                   .shape = shape};
      FOLDGRAD_RUN(y.device(), attention, p);
      if (!of_bias) return;
      const ColumnTotals<Value> over_segments{
          .out = grads.out<Value>(1), .values = ds.data<Value>(), .rows = rows, .columns = columns};
      FOLDGRAD_RUN(y.device(), column_sums, over_segments);  // [ATT-9]
    });
  }

  void describe(Description& d) const {
    if (in.bias.defined()) d.recorded = 1;
    d.onnx = [this](OnnxGraph& g, const OnnxOperands& operands) {
      const auto heads = [&](const Part& part, const Segments& rows) {
        const std::int64_t C = shape.y_row(), first = part.group * C;
        std::string x = operands[part.operand];
        if (operands.shape(part.operand)[-1] != C)
          x = g.node("Slice", {x, g.integers({first}), g.integers({first + C}), g.integers({-1})});
        return operands.split_heads(x, rows.equal_length(), shape.heads, shape.width);
      };
      const std::string q = heads(in.q, in.queries), k_recorded = heads(in.k, in.keys),
                        v_recorded = heads(in.v, in.keys);
      const auto [k, v, bias] = operands.keys({k_recorded, v_recorded}, shape.causal);
      const std::string scaled = g.node("Mul", {q, g.number(shape.scale)});
      std::string scores = g.node("MatMul", {scaled, g.transpose(k, {0, 1, 3, 2})});
      if (!bias.empty()) scores = g.node("Add", {scores, bias});
      if (in.bias.defined()) {
        const Shape& b = in.bias.shape();
        const std::string grouped = g.reshape(scores, {b[0], b[1], b[2], b[3]});
        scores = g.reshape(g.node("Add", {grouped, operands.recorded(1, in.bias)}), {b[1], b[2], b[3]});
      }
      const std::string p = g.node("Softmax", {scores}, {{"axis", std::int64_t(-1)}});
      return operands.merge_heads(g.node("MatMul", {p, v}));
    };
  }
};

void check_options(const char* op, std::int64_t columns, const AttentionOptions& options) {
  FOLDGRAD_CHECK(options.heads > 0 && columns % options.heads == 0,
                 "{}: heads must be positive and divide the {} columns of a row, got {}", op, columns, options.heads);
  const std::int64_t width = columns / options.heads;
  FOLDGRAD_CHECK(width <= kMaxHeadWidth, "{}: a head must have at most {} columns, got {} heads of {}", op,
                 kMaxHeadWidth, options.heads, width);
  FOLDGRAD_CHECK(options.scale >= 0 && std::isfinite(options.scale),
                 "{}: scale must be positive, or 0, which means 1 / sqrt(head width), got {}", op, options.scale);
  FOLDGRAD_CHECK(options.dropout >= 0 && options.dropout < 1, "{}: dropout must be in [0, 1), got {}", op,
                 options.dropout);
}

void check_segments(const char* op, const char* what, const Segments& segments, const Tensor& x) {
  FOLDGRAD_CHECK(segments.rows() == x.shape()[0] && segments.device() == x.device(),
                 "{}: the segments must match the rows of {} ({}), got {} rows on {}", op, what, describe(x),
                 segments.rows(), name(segments.device()));
}

// Checks the arguments and returns the shape. q, k and v have H * D columns each.
AttentionShape shape_of(const char* op, std::int64_t columns, const AttentionOptions& options, const Operands& in) {
  const Segments &queries = in.queries, &keys = in.keys;
  check_options(op, columns, options);
  FOLDGRAD_CHECK(queries.count() == keys.count(),
                 "{}: the number of key segments must equal the number of query segments, {}, got {}", op,
                 queries.count(), keys.count());
  FOLDGRAD_CHECK(keys.longest() < 1 << 24, "{}: a segment must have fewer than 2^24 keys, got {}", op, keys.longest());
  FOLDGRAD_CHECK(std::max(queries.rows(), keys.rows()) < std::int64_t(1) << 31,
                 "{}: there must be fewer than 2^31 queries and keys, got {} and {}", op, queries.rows(), keys.rows());
  std::int64_t pairs = 0;
  for (std::int64_t s = 0; s < queries.count(); ++s) pairs += queries.length(s) * keys.length(s);
  const std::int64_t width = columns / options.heads;
  const auto mask = Mask<double>::of(options.dropout, options.random);
  return {.segments = queries.count(),
          .heads = options.heads,
          .width = width,
          .q_offsets = queries.offsets().data<std::int64_t>(),
          .k_offsets = keys.offsets().data<std::int64_t>(),
          .rows = queries.rows(),
          .longest_queries = queries.longest(),
          .longest_keys = keys.longest(),
          .products = pairs * columns,
          .q_row = in.q.tensor.shape()[1],
          .k_row = in.k.tensor.shape()[1],
          .bias_groups = in.bias.defined() ? in.bias.shape()[0] : 1,
          .scale = options.scale > 0 ? options.scale : 1 / std::sqrt(double(std::max<std::int64_t>(width, 1))),
          .causal = options.causal,
          .drop_below = mask.threshold,
          .keep_factor = mask.scale,
          .random = options.random};
}

Var run(const char* op, const Operands& in, std::int64_t columns, const AttentionOptions& options,
        const std::vector<Var>& operands) {
  const AttentionShape shape = shape_of(op, columns, options, in);
  const Tensor& q = in.q.tensor;
  const Tensor y = Tensor::empty({shape.rows, shape.y_row()}, q.dtype(), q.device());
  return dispatch_floating(op, q.dtype(), [&]<class T>(Type<T>) {
    using Value = compute_t<T>;
    const Tensor L = Tensor::empty({shape.heads, shape.rows}, dtype_of<Value>, q.device());
    const AttentionForward<T> p{.y = y.data<T>(),
                                .L = L.data<Value>(),
                                .q = in.q.data<T>(shape),
                                .k = in.k.data<T>(shape),
                                .v = in.v.data<T>(shape),
                                .bias = data_or_null<T>(in.bias),
                                .shape = shape};
    FOLDGRAD_RUN(q.device(), attention, p);
    return operands[0].tape().record(y, operands, AttentionNode{.op = op, .in = in, .y = y, .L = L, .shape = shape});
  });
}

void check_matrix(const char* op, const char* what, const Tensor& x) {
  check_floating(op, what, x, 2);
  FOLDGRAD_CHECK(x.shape().rank() == 2, "{}: {} must have 2 axes (row, column), got {}", op, what, describe(x));
}

constexpr const char* kPacked = "attention_packed";

Operands packed_operands(const Tensor& qkv, const Segments& rows) {
  check_matrix(kPacked, "qkv", qkv);
  FOLDGRAD_CHECK(qkv.shape()[1] % 3 == 0, "{}: qkv must have 3 equal groups of columns, got {} columns", kPacked,
                 qkv.shape()[1]);
  check_segments(kPacked, "qkv", rows, qkv);
  return {{qkv, 0, 0}, {qkv, 0, 1}, {qkv, 0, 2}, rows, rows};
}

}  // namespace

Var attention(const Var& qv, const Var& kv, const Var& vv, const AttentionOptions& options, const Segments& queries,
              const Segments& keys) {
  constexpr const char* kOp = "attention";
  const Tensor &q = qv.value(), &k = kv.value(), &v = vv.value();
  check_matrix(kOp, "q", q);
  check_matrix(kOp, "k", k);
  const std::int64_t columns = q.shape()[1];
  check_operand(kOp, "k", k, {k.shape()[0], columns}, q, "q");
  check_operand(kOp, "v", v, k.shape(), k, "k");
  check_segments(kOp, "q", queries, q);
  check_segments(kOp, "k", keys, k);
  return run(kOp, {{q, 0, 0}, {k, 1, 0}, {v, 2, 0}, queries, keys}, columns, options, {qv, kv, vv});
}

Var attention_packed(const Var& qkv, const AttentionOptions& options, const Segments& rows) {
  const Operands in = packed_operands(qkv.value(), rows);
  return run(kPacked, in, qkv.shape()[1] / 3, options, {qkv});
}

Var attention_packed(const Var& qkv, const Var& biasv, const AttentionOptions& options, const Segments& rows) {
  Operands in = packed_operands(qkv.value(), rows);
  in.bias = biasv.value();
  const Shape& b = in.bias.shape();
  const bool none = rows.count() == 0 && b.rank() == 4;  // a bias of any length fits if there are no segments
  const std::int64_t T = none ? b[2] : rows.equal_length(), G = b.rank() == 4 ? b[0] : 0;
  FOLDGRAD_CHECK(T >= 0, "{}: with a bias, all segments must have the same length and no padding", kPacked);
  FOLDGRAD_CHECK(!options.causal, "{}: with a bias, causal must be off", kPacked);
  check_operand(kPacked, "bias", in.bias, {G, options.heads, T, T}, qkv.value(), "qkv");
  FOLDGRAD_CHECK(G > 0 && rows.count() % G == 0,
                 "{}: the size of the bias's first axis must divide the number of segments, {}, got {}", kPacked,
                 rows.count(), G);
  return run(kPacked, in, qkv.shape()[1] / 3, options, {qkv, biasv});
}

}  // namespace foldgrad
