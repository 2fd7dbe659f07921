#include "ops/gate/gate.h"

#include <algorithm>

#include "engine/cpu/rows.h"
#include "engine/graph/description.h"
#include "engine/graph/onnx_graph.h"
#include "engine/node_grads.h"
#include "ops/gate/gate_kernels.h"

namespace foldgrad {
namespace {

constexpr std::int64_t kChunk = 64;  // number of columns whose sums stay in registers

// Computes the gradients of columns [first, first + width) of sample b, where `width` is at most kChunk.
template <class T>
void gate_columns(const GateBackward<T>& given, std::int64_t b, std::int64_t first, std::int64_t width) {
  using Value = compute_t<T>;
  const GateBackward<T> p = given;  // a copy in registers, since a reference could alias the output
  const std::int64_t sample = b * p.columns + first;
  const T* w = p.w + sample;
  Value sums[kChunk] = {};
  for (std::int64_t t = 0; t < p.steps; ++t) {
    const std::int64_t i = (b * p.steps + t) * p.columns + first;
    const T *dy = p.dy + i, *x = p.x + i;
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) sums[c] += Value(dy[c]) * Value(x[c]);
    if (!p.dx) continue;
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) p.dx.put(i + c, Value(w[c]) * Value(dy[c]));  // [GATE-2]
  }
  if (!p.dw) return;
#pragma omp simd
  for (std::int64_t c = 0; c < width; ++c) p.dw.put(sample + c, sums[c]);  // [GATE-3]
}

}  // namespace

template <class T>
void gate_cpu(const GateForward<T>& p) {
  using Value = compute_t<T>;
  for_rows_cpu(p.batch * p.steps, p.columns, [&p](std::int64_t row) {
    const T *x = p.x + row * p.columns, *w = p.w + row / p.steps * p.columns;
    T* y = p.y + row * p.columns;
#pragma omp simd
    for (std::int64_t c = 0; c < p.columns; ++c) y[c] = T(Value(w[c]) * Value(x[c]));  // [GATE-1]
  });
}
template <class T>
void gate_cpu(const GateBackward<T>& p) {
  for_rows_cpu(p.batch, p.steps * p.columns, [&p](std::int64_t b) {
    for (std::int64_t c = 0; c < p.columns; c += kChunk) gate_columns(p, b, c, std::min(kChunk, p.columns - c));
  });
}

namespace {

struct GateNode {
  Tensor x, w;

  const char* name() const { return "gate"; }

  // Differentiates gate [GATE-1]: computes dx [GATE-2] and dw [GATE-3].
  void backward(NodeGrads& grads) {
    dispatch_floating(name(), x.dtype(), [&]<class T>(Type<T>) {
      const GateBackward<T> p{.dx = grads.out<T>(0),
                              .dw = grads.out<T>(1),
                              .dy = grads.dy().data<T>(),
                              .x = x.data<T>(),
                              .w = w.data<T>(),
                              .batch = x.shape()[0],
                              .steps = x.shape()[1],
                              .columns = x.shape()[2]};
      FOLDGRAD_RUN(x.device(), gate, p);
    });
  }
  void describe(Description& d) const {
    d.onnx = [](OnnxGraph& g, const OnnxOperands& in) {
      return g.node("Mul", {in[0], g.node("Unsqueeze", {in[1], g.integers({1})})});
    };
  }
};

}  // namespace

Var gate(const Var& xv, const Var& wv) {
  const Tensor &x = xv.value(), &w = wv.value();
  check_floating("gate", "x", x, 3);
  FOLDGRAD_CHECK(x.shape().rank() == 3, "gate: x must have 3 axes, got {}", x.shape());
  const std::int64_t batch = x.shape()[0], steps = x.shape()[1], columns = x.shape()[2];
  check_operand("gate", "w", w, {batch, columns}, x, "x");
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  dispatch_floating("gate", x.dtype(), [&]<class T>(Type<T>) {
    const GateForward<T> p{
        .y = y.data<T>(), .x = x.data<T>(), .w = w.data<T>(), .batch = batch, .steps = steps, .columns = columns};
    FOLDGRAD_RUN(x.device(), gate, p);
  });
  return xv.tape().record(y, {xv, wv}, GateNode{.x = x, .w = w});
}

}  // namespace foldgrad
