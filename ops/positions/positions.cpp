#include "ops/positions/positions.h"

#include <cmath>

#include "engine/graph/description.h"
#include "engine/graph/onnx_graph.h"
#include "ops/positions/positions_kernels.h"
#include "ops/total/total.h"

namespace foldgrad {
namespace {

struct SinusoidalPositionsNode {
  Tensor mask;  // undefined without zero_padding

  const char* name() const { return "sinusoidal_positions"; }

  void backward(NodeGrads& grads) {
    if (!mask.defined()) return grads.pass_dy(0);
    const Tensor& dy = grads.dy();
    dispatch_floating(name(), dy.dtype(), [&]<class T>(Type<T>) {
      const PositionsBackward<T> p{.dx = grads.out<T>(0),
                                   .dy = dy.data<T>(),
                                   .mask = mask.data<std::uint8_t>(),
                                   .rows = mask.size(),
                                   .columns = dy.shape()[2]};
      FOLDGRAD_RUN(dy.device(), positions, p);
    });
  }
};

struct LearnedPositionsNode {
  const char* name() const { return "learned_positions"; }

  void backward(NodeGrads& grads) {
    const Tensor& dy = grads.dy();
    const std::int64_t batch = dy.shape()[0], length = dy.shape()[1], columns = dy.shape()[2];
    if (const auto [dtable, mode] = grads.place(1); dtable.defined()) {
      dispatch_floating(name(), dy.dtype(), [&, &dtable = dtable, mode = mode]<class T>(Type<T>) {
        const ColumnTotals<T> over_batch{.out = {dtable.data<T>(), nullptr, mode},
                                         .values = dy.data<T>(),
                                         .rows = batch,
                                         .columns = length * columns};
        FOLDGRAD_RUN(dy.device(), total, over_batch);  // [POS-5]
      });
      if (mode == GradMode::set) dtable.slice(length, dtable.shape()[0]).zero();
    }
    grads.pass_dy(0);
  }
  void describe(Description& d) const { d.positions = 1; }
  std::string onnx(OnnxGraph& g, const OnnxOperands& in) const { return g.node("Add", {in[0], in[1]}); }
};

void check_x(const char* op, const Tensor& x) {
  check_floating(op, "x", x, 3);
  FOLDGRAD_CHECK(x.shape().rank() == 3, "{}: x must be [B, T, C], got {}", op, x.shape());
}

// first: the position of the first token.
void check_table(const char* op, const Tensor& table, const Tensor& x, int first) {
  check_floating(op, "table", table, 1);
  check_operand(op, "table", table, {table.shape()[0], x.shape()[2]}, x, "x");
  FOLDGRAD_CHECK(table.shape()[0] >= x.shape()[1] + first, "{}: table must have at least {} rows, for x {}, got {}", op,
                 x.shape()[1] + first, x.shape(), table.shape());
}

Tensor add_rows(const char* op, const Tensor& x, const std::uint8_t* mask, const Tensor& table, bool zero_padding) {
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  dispatch_floating(op, x.dtype(), [&]<class T>(Type<T>) {
    const PositionsForward<T> p{.y = y.data<T>(),
                                .x = x.data<T>(),
                                .table = table.data<T>(),
                                .mask = mask,
                                .batch = x.shape()[0],
                                .length = x.shape()[1],
                                .columns = x.shape()[2],
                                .zero_padding = zero_padding};
    FOLDGRAD_RUN(x.device(), positions, p);
  });
  return y;
}

}  // namespace

Tensor sinusoidal_table(std::int64_t rows, std::int64_t columns, DType dtype, Device device) {
  FOLDGRAD_CHECK(is_floating(dtype), "sinusoidal_table: needs f32, f64 or bf16, got {}", name(dtype));
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

Var sinusoidal_positions(const Var& xv, const Var& maskv, const Tensor& table, bool zero_padding) {
  const Tensor &x = xv.value(), &mask = maskv.value();
  check_x("sinusoidal_positions", x);
  check_operand("sinusoidal_positions", "mask", mask, {x.shape()[0], x.shape()[1]}, DType::u8, x, "x");
  check_table("sinusoidal_positions", table, x, kPaddingPosition + 1);
  const Tensor y = add_rows("sinusoidal_positions", x, mask.data<std::uint8_t>(), table, zero_padding);
  return xv.tape().record(y, {xv, maskv}, SinusoidalPositionsNode{.mask = zero_padding ? mask : Tensor()});
}

Var learned_positions(const Var& xv, const Var& tablev) {
  const Tensor& x = xv.value();
  check_x("learned_positions", x);
  check_table("learned_positions", tablev.value(), x, 0);
  const Tensor y = add_rows("learned_positions", x, nullptr, tablev.value(), /*zero_padding=*/false);
  return xv.tape().record(y, {xv, tablev}, LearnedPositionsNode{});
}

}  // namespace foldgrad
