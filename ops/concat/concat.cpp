#include "ops/concat/concat.h"

#include "engine/graph/graph.h"
#include "engine/graph/onnx_graph.h"
#include "ops/permute/permute_kernels.h"

namespace foldgrad {
namespace {

// Copies the first `columns` of each row; row_x and row_y are the lengths of the rows.
template <class T>
void copy_rows([[maybe_unused]] Device device, const GradOut<T>& y, std::int64_t row_y, const T* x, std::int64_t row_x,
               std::int64_t rows, std::int64_t columns) {
  const Permute<T> p{.y = y, .x = x, .rows = rows, .columns = columns, .row_x = row_x, .row_y = row_y, .column_x = 1};
  FOLDGRAD_RUN(device, permute, p);
}

// Sizes around an axis: [R, n, inner].
std::int64_t rows_before(const Shape& shape, int axis) {
  std::int64_t rows = 1;
  for (int a = 0; a < axis; ++a) rows *= shape[a];
  return rows;
}
std::int64_t row_size(const Shape& shape, int axis) { return shape[axis] * shape.stride(axis); }

struct ConcatNode {
  int axis;
  std::vector<std::int64_t> row_sizes;  // n_k inner of the operands

  const char* name() const { return "concat"; }

  void backward(NodeGrads& grads) {
    const Tensor& dy = grads.dy();
    std::int64_t begin = 0;
    for (std::size_t k = 0; k < row_sizes.size(); begin += row_sizes[k++]) {
      const auto [dx, mode] = grads.place(int(k));
      if (!dx.defined()) continue;
      dispatch_floating(name(), dy.dtype(), [&, &dx = dx, mode = mode]<class T>(Type<T>) {
        copy_rows<T>(dy.device(), {dx.data<T>(), mode}, row_sizes[k], dy.data<T>() + begin, row_size(dy.shape(), axis),
                     rows_before(dy.shape(), axis), row_sizes[k]);  // [CAT-2]
      });
    }
  }

  std::string passes(const Graph& graph, const GraphUse& use, ChannelMap& map) const {
    if (axis != map.place.axis) return "concat joins along an axis other than the channels";
    for (int k = 0; k < use.operand; ++k) map.place.offset += graph.shape({use.node, k})[axis];
    return "";
  }
  std::string onnx(OnnxGraph& g, const OnnxOperands& in) const {
    std::vector<std::string> operands;
    for (std::size_t k = 0; k < row_sizes.size(); ++k) operands.push_back(in[int(k)]);
    return g.node("Concat", operands, {{"axis", std::int64_t(axis)}});
  }
};

struct SliceNode {
  int axis;
  std::int64_t begin;

  const char* name() const { return "slice"; }

  void backward(NodeGrads& grads) {
    const Tensor& dy = grads.dy();
    auto [dx, mode] = grads.place(0);
    if (mode == GradMode::set) dx.zero();
    dispatch_floating(name(), dy.dtype(), [&, &dx = dx, mode = mode]<class T>(Type<T>) {
      const std::int64_t columns = row_size(dy.shape(), axis);
      copy_rows<T>(dy.device(), {dx.data<T>() + begin * dx.shape().stride(axis), mode}, row_size(dx.shape(), axis),
                   dy.data<T>(), columns, rows_before(dy.shape(), axis), columns);  // [CUT-2]
    });
  }

  std::string passes(const Graph&, const GraphUse&, ChannelMap& map) const {
    return axis == map.place.axis ? "slice cuts the channels" : "";
  }
  std::string onnx(OnnxGraph& g, const OnnxOperands& in) const {
    const std::int64_t end = begin + in.result()[axis];
    return g.node("Slice", {in[0], g.integers({begin}), g.integers({end}), g.integers({axis})});
  }
};

}  // namespace

Var concat(const std::vector<Var>& xs, int axis) {
  FOLDGRAD_CHECK(!xs.empty(), "concat: needs at least one operand, got none");
  const Tensor& first = xs[0].value();
  check_floating("concat", "operand 0", first, 1);
  axis = check_axis("concat", axis, first.shape());
  std::int64_t n = 0;
  for (std::size_t k = 0; k < xs.size(); ++k) {
    const Tensor& x = xs[k].value();
    const bool same_rank = x.defined() && x.shape().rank() == first.shape().rank();
    const Shape wanted = same_rank ? first.shape().with(axis, x.shape()[axis]) : first.shape();
    check_operand("concat", fmt::format("operand {}", k).c_str(), x, wanted, first, "operand 0");
    n += x.shape()[axis];
  }

  const Tensor y = Tensor::empty(first.shape().with(axis, n), first.dtype(), first.device());
  std::vector<std::int64_t> row_sizes;
  dispatch_floating("concat", first.dtype(), [&]<class T>(Type<T>) {
    std::int64_t begin = 0;
    for (const Var& x : xs) {
      const std::int64_t columns = row_size(x.shape(), axis);
      copy_rows<T>(y.device(), {y.data<T>() + begin, GradMode::set}, row_size(y.shape(), axis), x.value().data<T>(),
                   columns, rows_before(y.shape(), axis), columns);  // [CAT-1]
      begin += columns;
      row_sizes.push_back(columns);
    }
  });
  return xs[0].tape().record(y, xs, ConcatNode{.axis = axis, .row_sizes = std::move(row_sizes)});
}

Var slice(const Var& xv, int axis, std::int64_t begin, std::int64_t end) {
  const Tensor& x = xv.value();
  check_floating("slice", "x", x, 1);
  axis = check_axis("slice", axis, x.shape());
  FOLDGRAD_CHECK(0 <= begin && begin <= end && end <= x.shape()[axis], "slice: [{}, {}) must lie within axis {} of {}",
                 begin, end, axis, x.shape());
  const Shape shape = x.shape().with(axis, end - begin);
  const std::int64_t rows = rows_before(shape, axis), inner = shape.stride(axis);
  if (rows == 1) {
    const Tensor view = x.reshape(std::vector<std::int64_t>{-1}).slice(begin * inner, end * inner).reshape(shape);
    return xv.tape().record(view, {xv}, SliceNode{.axis = axis, .begin = begin});
  }
  const Tensor y = Tensor::empty(shape, x.dtype(), x.device());
  dispatch_floating("slice", x.dtype(), [&]<class T>(Type<T>) {
    const std::int64_t columns = row_size(shape, axis);
    copy_rows<T>(x.device(), {y.data<T>(), GradMode::set}, columns, x.data<T>() + begin * inner,
                 row_size(x.shape(), axis), rows, columns);  // [CUT-1]
  });
  return xv.tape().record(y, {xv}, SliceNode{.axis = axis, .begin = begin});
}

}  // namespace foldgrad
