#include "ops/positions/positions.h"

#include <algorithm>
#include <cmath>

#include "engine/cpu/column_sums.h"
#include "engine/cpu/rows.h"
#include "engine/graph/description.h"
#include "engine/graph/onnx_graph.h"
#include "engine/node_grads.h"
#include "ops/positions/positions_kernels.h"
#include "ops/total/total.h"

namespace foldgrad {

template <class T>
void positions_cpu(const PositionsForward<T>& p) {
  for_rows_cpu(p.batch * p.length, p.columns, [&p](std::int64_t r) {
    const std::int64_t position = p.position(r, r % p.length);
    const T *x = p.x + r * p.columns, *row = p.table + position * p.columns;
    T* y = p.y + r * p.columns;
    const std::int64_t columns = p.columns;
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c) y[c] = T(p.sum(x[c], row[c]));
  });
}

namespace {

struct SinusoidalPositionsNode {
  Tensor table;

  const char* name() const { return "sinusoidal_positions"; }

  // Differentiates sinusoidal_positions [POS-3]: computes dx [POS-3].
  void backward(NodeGrads& grads) { grads.pass_dy(0); }
  void describe(Description& d) const {
    d.onnx = [this](OnnxGraph& g, const OnnxOperands& in) {
      return g.node("Add", {in[0], g.node("Gather", {g.initializer("positions", table), in.positions()})});
    };
  }
};

struct LearnedPositionsNode {
  const char* name() const { return "learned_positions"; }

  // Differentiates learned_positions [POS-4]: computes dx [POS-4] and dtable [POS-5].
  void backward(NodeGrads& grads) {
    const Tensor& dy = grads.dy();
    const std::int64_t batch = dy.shape()[0], length = dy.shape()[1], columns = dy.shape()[2];
    if (const auto [dtable, mode] = grads.place(1, dy.dtype()); dtable.defined()) {
      dispatch_floating(name(), dy.dtype(), [&, &dtable = dtable, mode = mode]<class T>(Type<T>) {
        using Value = compute_t<T>;
        const Tensor sums = Tensor::empty({length, columns}, dtype_of<Value>, dy.device());
        const ColumnTotals<T> over_batch{
            .out = {sums.data<Value>()}, .values = dy.data<T>(), .rows = batch, .columns = length * columns};
        FOLDGRAD_RUN(dy.device(), column_sums, over_batch);  // [POS-5]
        accumulate(dtable.slice(0, length), sums, mode);
      });
      if (mode == GradMode::set) dtable.slice(length, dtable.shape()[0]).zero();
    }
    grads.pass_dy(0);
  }
  void describe(Description& d) const {
    d.positions = 1;
    d.onnx = [](OnnxGraph& g, const OnnxOperands& in) { return g.node("Add", {in[0], in[1]}); };
  }
};

// Checks the table, which must have at least `needed` rows.
void check_table(const char* op, const Tensor& table, const Tensor& x, std::int64_t needed) {
  check_floating(op, "table", table, 1);
  check_operand(op, "table", table, {table.shape()[0], x.shape()[-1]}, x, "x");
  FOLDGRAD_CHECK(table.shape()[0] >= needed, "{}: table must have at least {} rows, for x {}, got {}", op, needed,
                 x.shape(), table.shape());
}

// Adds rows of the table to x. `places` is undefined for learned positions.
Tensor add_rows(const char* op, const Tensor& x, std::int64_t batch, std::int64_t length, const Tensor& places,
                const Tensor& table) {
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  dispatch_floating(op, x.dtype(), [&]<class T>(Type<T>) {
    const PositionsForward<T> p{.y = y.data<T>(),
                                .x = x.data<T>(),
                                .table = table.data<T>(),
                                .places = data_or_null<std::int64_t>(places),
                                .batch = batch,
                                .length = length,
                                .columns = x.shape()[-1]};
    FOLDGRAD_RUN(x.device(), positions, p);
  });
  return y;
}

}  // namespace

Tensor sinusoidal_table(std::int64_t rows, std::int64_t columns, DType dtype, Device device) {
  FOLDGRAD_CHECK(is_floating(dtype), "sinusoidal_table: dtype must be f32, f64 or bf16, got {}", name(dtype));
  const Tensor table = Tensor::zeros({rows, columns}, DType::f64);
  const std::int64_t half = columns / 2;
  for (std::int64_t p = 0; p < rows; ++p)
    for (std::int64_t i = 0; i < half && p != kPaddingPosition; ++i) {
      const double frequency = half > 1 ? std::exp(-double(i) * std::log(10000.0) / double(half - 1)) : 1;
      table.data<double>()[p * columns + i] = std::sin(double(p) * frequency);  // [POS-1]
      table.data<double>()[p * columns + half + i] = std::cos(double(p) * frequency);
    }
  return table.to(dtype).to(device);
}

Var sinusoidal_positions(const Var& xv, const Tensor& places, const Tensor& table) {
  constexpr const char* kOp = "sinusoidal_positions";
  const Tensor& x = xv.value();
  check_floating(kOp, "x", x, 2);
  FOLDGRAD_CHECK(x.shape().rank() == 2, "{}: x must be [N, C], got {}", kOp, x.shape());
  const std::int64_t N = x.shape()[0];
  FOLDGRAD_CHECK(
      places.defined() && places.shape() == Shape{N} && places.dtype() == DType::i64 && places.device() == Device::cpu,
      "{}: places must be i64 [{}] on cpu (x is {}), got {}", kOp, N, describe(x), describe(places));
  const std::int64_t* first = places.data<std::int64_t>();
  const std::int64_t last = N > 0 ? *std::max_element(first, first + N) : -1;
  check_table(kOp, table, x, kPaddingPosition + 2 + last);
  const Tensor y = add_rows(kOp, x, 1, N, places.to(x.device()), table);
  return xv.tape().record(y, {xv}, SinusoidalPositionsNode{.table = table});
}

Var learned_positions(const Var& xv, const Var& tablev) {
  constexpr const char* kOp = "learned_positions";
  const Tensor& x = xv.value();
  check_floating(kOp, "x", x, 3);
  FOLDGRAD_CHECK(x.shape().rank() == 3, "{}: x must be [B, T, C], got {}", kOp, x.shape());
  const std::int64_t B = x.shape()[0], T_ = x.shape()[1];
  check_table(kOp, tablev.value(), x, T_);
  const Tensor y = add_rows(kOp, x, B, T_, Tensor(), tablev.value());
  return xv.tape().record(y, {xv, tablev}, LearnedPositionsNode{});
}

}  // namespace foldgrad
