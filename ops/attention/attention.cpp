#include "ops/attention/attention.h"

#include <cmath>

#include "engine/graph/onnx_graph.h"
#include "ops/attention/attention_kernels.h"

namespace foldgrad {
namespace {

// q, k or v as the kernels see it: a group of H D columns of an operand.
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
};

struct Operands {
  Part q, k, v;
  const char* k_name;
};

struct AttentionNode {
  const char* op;
  Operands in;
  Tensor y, L, mask;
  AttentionShape shape;

  const char* name() const { return op; }

  template <class T>
  void place_gradients(NodeGrads& grads, AttentionBackward<T>& p) const {
    const GradOut<T> of_q = grads.out<T>(in.q.operand);
    const GradOut<T> of_k = in.k.operand == in.q.operand ? of_q : grads.out<T>(in.k.operand);
    const GradOut<T> of_v = in.v.operand == in.k.operand ? of_k : grads.out<T>(in.v.operand);
    p.dq = {in.q.begin(of_q.data, shape), of_q.mode};
    p.dk = {in.k.begin(of_k.data, shape), of_k.mode};
    p.dv = {in.v.begin(of_v.data, shape), of_v.mode};
  }

  void backward(NodeGrads& grads) {
    dispatch_floating(op, y.dtype(), [&]<class T>(Type<T>) {
      using Value = compute_t<T>;
      const Tensor delta = Tensor::empty(L.shape(), L.dtype(), L.device());
      AttentionBackward<T> p{.dq = {},
                             .dk = {},
                             .dv = {},
                             .delta = delta.data<Value>(),
                             .dy = grads.dy().data<T>(),
                             .y = y.data<T>(),
                             .q = in.q.data<T>(shape),
                             .k = in.k.data<T>(shape),
                             .v = in.v.data<T>(shape),
                             .L = L.data<Value>(),
                             .mask = mask.defined() ? mask.data<std::uint8_t>() : nullptr,
                             .shape = shape};
      place_gradients(grads, p);
      FOLDGRAD_RUN(y.device(), attention, p);
    });
  }

  std::string onnx(OnnxGraph& g, const OnnxOperands& operands) const {
    FOLDGRAD_CHECK(!mask.defined() && !shape.causal, "onnx: {} with a mask is not known as nodes of ONNX", op);
    const auto heads = [&](const Part& part, std::int64_t length) {
      const std::int64_t C = shape.y_row(), first = part.group * C;
      std::string x = operands[part.operand];
      if (operands.shape(part.operand)[-1] != C)
        x = g.node("Slice", {x, g.integers({first}), g.integers({first + C}), g.integers({-1})});
      return g.transpose(g.reshape(x, {length, shape.heads, shape.width}), {0, 2, 1, 3});
    };
    const std::string q = heads(in.q, shape.queries), k = heads(in.k, shape.keys), v = heads(in.v, shape.keys);
    const std::string scaled = g.node("Mul", {q, g.number(shape.scale)});
    const std::string scores = g.node("MatMul", {scaled, g.transpose(k, {0, 1, 3, 2})});
    const std::string p = g.node("Softmax", {scores}, {{"axis", std::int64_t(-1)}});
    const std::string rows = g.transpose(g.node("MatMul", {p, v}), {0, 2, 1, 3});
    return g.reshape(rows, {operands.result().begin() + 1, operands.result().end()});
  }
};

AttentionShape shape_of(const char* op, const Tensor& q, std::int64_t keys, std::int64_t columns,
                        const AttentionOptions& options) {
  FOLDGRAD_CHECK(options.heads > 0 && columns % options.heads == 0,
                 "{}: heads must be positive and divide the {} columns of a position, got {}", op, columns,
                 options.heads);
  const std::int64_t width = columns / options.heads;
  FOLDGRAD_CHECK(width <= kMaxHeadWidth, "{}: a head must have at most {} columns, got {} heads of {}", op,
                 kMaxHeadWidth, options.heads, width);
  FOLDGRAD_CHECK(options.scale >= 0 && std::isfinite(options.scale),
                 "{}: scale must be positive, or 0 for 1 / sqrt(width of a head), got {}", op, options.scale);
  FOLDGRAD_CHECK(options.dropout >= 0 && options.dropout < 1, "{}: dropout must be in [0, 1), got {}", op,
                 options.dropout);
  const DropChoice choice(options.dropout);
  return {.batch = q.shape()[0],
          .heads = options.heads,
          .queries = q.shape()[1],
          .keys = keys,
          .width = width,
          .q_row = columns,
          .k_row = columns,
          .scale = options.scale > 0 ? options.scale : 1 / std::sqrt(double(std::max<std::int64_t>(width, 1))),
          .causal = options.causal,
          .drop_below = choice.drop_below,
          .keep_factor = choice.keep_factor,
          .random = options.random};
}

Var run(const char* op, const Operands& in, const AttentionShape& shape, const Var& maskv, std::vector<Var> operands) {
  const Tensor mask = maskv.value();
  if (mask.defined()) {
    check_operand(op, "mask", mask, {shape.batch, shape.keys}, DType::u8, in.k.tensor, in.k_name);
    operands.push_back(maskv);
  }
  const Tensor& q = in.q.tensor;
  const Tensor y = Tensor::empty({shape.batch, shape.queries, shape.y_row()}, q.dtype(), q.device());
  return dispatch_floating(op, q.dtype(), [&]<class T>(Type<T>) {
    using Value = compute_t<T>;
    const Tensor L = Tensor::empty({shape.batch, shape.heads, shape.queries}, dtype_of<Value>, q.device());
    const AttentionForward<T> p{.y = y.data<T>(),
                                .L = L.data<Value>(),
                                .q = in.q.data<T>(shape),
                                .k = in.k.data<T>(shape),
                                .v = in.v.data<T>(shape),
                                .mask = mask.defined() ? mask.data<std::uint8_t>() : nullptr,
                                .shape = shape};
    FOLDGRAD_RUN(q.device(), attention, p);
    return operands[0].tape().record(y, operands,
                                     AttentionNode{.op = op, .in = in, .y = y, .L = L, .mask = mask, .shape = shape});
  });
}

void check_rank_3(const char* op, const char* what, const Tensor& x) {
  check_floating(op, what, x, 3);
  FOLDGRAD_CHECK(x.shape().rank() == 3, "{}: {} must have 3 axes (batch, position, columns), got {}", op, what,
                 describe(x));
}

}  // namespace

Var attention(const Var& qv, const Var& kv, const Var& vv, const AttentionOptions& options, const Var& mask) {
  const Tensor &q = qv.value(), &k = kv.value(), &v = vv.value();
  check_rank_3("attention", "q", q);
  check_rank_3("attention", "k", k);
  const std::int64_t B = q.shape()[0], Tk = k.shape()[1], columns = q.shape()[2];
  check_operand("attention", "k", k, {B, Tk, columns}, q, "q");
  check_operand("attention", "v", v, k.shape(), k, "k");
  return run("attention", {{q, 0, 0}, {k, 1, 0}, {v, 2, 0}, "k"}, shape_of("attention", q, Tk, columns, options), mask,
             {qv, kv, vv});
}

Var attention_packed(const Var& qkvv, const AttentionOptions& options, const Var& mask) {
  const Tensor& qkv = qkvv.value();
  check_rank_3("attention_packed", "qkv", qkv);
  const std::int64_t columns = qkv.shape()[2];
  FOLDGRAD_CHECK(columns % 3 == 0, "attention_packed: qkv must have 3 equal groups of columns, got {} columns",
                 columns);
  AttentionShape shape = shape_of("attention_packed", qkv, qkv.shape()[1], columns / 3, options);
  shape.q_row = shape.k_row = columns;
  return run("attention_packed", {{qkv, 0, 0}, {qkv, 0, 1}, {qkv, 0, 2}, "qkv"}, shape, mask, {qkvv});
}

}  // namespace foldgrad
