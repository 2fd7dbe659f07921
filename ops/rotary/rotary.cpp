#include "ops/rotary/rotary.h"

#include <cmath>

#include "engine/cpu/rows.h"
#include "engine/graph/description.h"
#include "engine/graph/onnx_graph.h"
#include "engine/node_grads.h"
#include "ops/rotary/rotary_kernels.h"

namespace foldgrad {

template <class T>
void rotary_cpu(const Rotary<T>& p) {
  for_rows_cpu(p.rows, 2 * p.heads * p.pairs, [&p](std::int64_t r) {
    for (std::int64_t h = 0; h < p.heads; ++h)
      for (std::int64_t i = 0; i < p.pairs; ++i) p(r, h, i);
  });
}

namespace {

struct RotaryNode {
  Tensor places;
  RotaryTable table;
  std::int64_t columns;

  const char* name() const { return "rotary"; }

  void run(const Tensor& y, GradMode mode, const Tensor& x, int sign) const {
    dispatch_floating(name(), x.dtype(), [&]<class T>(Type<T>) {
      const std::int64_t pairs = table.cosines.shape()[1];
      const Rotary<T> p{.y = {y.data<T>(), mode},
                        .x = x.data<T>(),
                        .places = places.data<std::int64_t>(),
                        .cosines = table.cosines.data<compute_t<T>>(),
                        .sines = table.sines.data<compute_t<T>>(),
                        .rows = x.shape()[0],
                        .heads = x.shape()[1] / (2 * pairs),
                        .turned = columns / (2 * pairs),
                        .pairs = pairs,
                        .length = table.cosines.shape()[0],
                        .sign = compute_t<T>(sign)};
      FOLDGRAD_RUN(x.device(), rotary, p);
    });
  }

  // Differentiates rotary [ROT-2]: computes dx [ROT-3].
  void backward(NodeGrads& grads) {
    const auto [dx, mode] = grads.place(0, grads.dy().dtype());
    run(dx, mode, grads.dy(), -1);  // [ROT-3]
  }

  void describe(Description& d) const {
    d.passes = [](const Graph&, const GraphUse&, ChannelMap&) -> std::string {
      return "rotary mixes the columns of a pair";
    };
    d.onnx = [this](OnnxGraph& g, const OnnxOperands& in) {
      const std::int64_t pairs = table.cosines.shape()[1], all = in.result()[1];
      const auto part = [&](std::int64_t begin, std::int64_t end) {
        return g.node("Slice", {in[0], g.integers({begin}), g.integers({end}), g.integers({-1})});
      };
      const auto of_place = [&](const char* name, const Tensor& rows) {
        return g.node("Unsqueeze", {g.node("Gather", {g.initializer(name, rows), in.positions()}), g.integers({2})});
      };
      const std::string x = g.node("Reshape", {part(0, columns), g.integers({0, 0, columns / (2 * pairs), pairs, 2})});
      const auto of_pair = [&](std::int64_t k) {
        return g.node("Gather", {x, g.integer(k)}, {{"axis", std::int64_t(-1)}});
      };
      const std::string a = of_pair(0), b = of_pair(1), cosine = of_place("rotary.cosines", table.cosines),
                        sine = of_place("rotary.sines", table.sines);
      const auto turned = [&](const char* op, const std::string& with_cosine, const std::string& with_sine) {
        const std::string y = g.node(op, {g.node("Mul", {with_cosine, cosine}), g.node("Mul", {with_sine, sine})});
        return g.node("Unsqueeze", {y, g.integers({-1})});
      };
      const OnnxGraph::Attribute last{"axis", std::int64_t(-1)};
      const std::string first = turned("Sub", a, b), second = turned("Add", b, a);
      const std::string y = g.node("Reshape", {g.node("Concat", {first, second}, {last}), g.integers({0, 0, columns})});
      return columns == all ? y : g.node("Concat", {y, part(columns, all)}, {last});
    };
  }
};

}  // namespace

RotaryTable::RotaryTable(std::int64_t places, std::int64_t width, double theta, DType dtype, Device device) {
  FOLDGRAD_CHECK(width >= 2 && width % 2 == 0, "rotary: the width of a head must be even and at least 2, got {}",
                 width);
  FOLDGRAD_CHECK(theta > 0 && std::isfinite(theta), "rotary: theta must be a number above 0, got {}", theta);
  const Tensor cosine = Tensor::empty({places, width / 2}, DType::f64), sine = cosine.clone();
  for (std::int64_t p = 0; p < places; ++p)
    for (std::int64_t i = 0; i < width / 2; ++i) {
      const double angle = double(p) * std::pow(theta, -2 * double(i) / double(width));  // [ROT-1]
      cosine.data<double>()[p * (width / 2) + i] = std::cos(angle);
      sine.data<double>()[p * (width / 2) + i] = std::sin(angle);
    }
  const DType compute = dtype == DType::f64 ? DType::f64 : DType::f32;
  cosines = cosine.to(compute).to(device);
  sines = sine.to(compute).to(device);
}

Var rotary(const Var& xv, const Tensor& places, const RotaryTable& table, std::int64_t columns) {
  const Tensor& x = xv.value();
  check_floating("rotary", "x", x, 2);
  const std::int64_t D = 2 * table.cosines.shape()[1], length = table.cosines.shape()[0];
  FOLDGRAD_CHECK(x.shape().rank() == 2 && x.shape()[1] % D == 0,
                 "rotary: x must be [N, H D] for heads of D = {} columns, got {}", D, x.shape());
  const std::int64_t N = x.shape()[0], C = x.shape()[1];
  FOLDGRAD_CHECK(0 <= columns && columns <= C && columns % D == 0,
                 "rotary: columns must be a multiple of {} and at most {}, got {}", D, C, columns);
  check_operand("rotary", "the table", table.cosines, table.cosines.shape(),
                x.dtype() == DType::f64 ? DType::f64 : DType::f32, x, "x");
  check_operand("rotary", "places", places, {N}, DType::i64, x, "x");
  for (std::int64_t r = 0; r < N && x.device() == Device::cpu; ++r)
    FOLDGRAD_CHECK(0 <= places.data<std::int64_t>()[r] && places.data<std::int64_t>()[r] < length,
                   "rotary: places must be in [0, {}), got {}", length, places.data<std::int64_t>()[r]);
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  const RotaryNode node{.places = places, .table = table, .columns = columns};
  node.run(y, GradMode::set, x, 1);  // [ROT-2]
  return xv.tape().record(y, {xv}, node);
}

}  // namespace foldgrad
