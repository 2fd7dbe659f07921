#include "ops/concat/concat.h"

#include "engine/graph/graph.h"
#include "engine/graph/onnx_graph.h"
#include "ops/concat/concat_kernels.h"

namespace foldgrad {
namespace {

template <class T>
void copy_rows([[maybe_unused]] Device device, const CopyRows<T>& p) {
  FOLDGRAD_RUN(device, copy_rows, p);
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
        copy_rows<T>(dy.device(), {.y = {dx.data<T>(), mode},  // [CAT-2]
                                   .x = dy.data<T>() + begin,
                                   .rows = rows_before(dy.shape(), axis),
                                   .columns = row_sizes[k],
                                   .row_y = row_sizes[k],
                                   .row_x = row_size(dy.shape(), axis)});
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
    const auto [dx, mode] = grads.place(0);
    dispatch_floating(name(), dy.dtype(), [&, &dx = dx, mode = mode]<class T>(Type<T>) {
      const std::int64_t width = row_size(dx.shape(), axis), columns = row_size(dy.shape(), axis),
                         before = begin * dx.shape().stride(axis);
      const bool add = mode == GradMode::add;                                     // adding zeros can be left out
      copy_rows<T>(dy.device(), {.y = {dx.data<T>() + (add ? before : 0), mode},  // [CUT-2]
                                 .x = dy.data<T>(),
                                 .rows = rows_before(dy.shape(), axis),
                                 .columns = columns,
                                 .row_y = width,
                                 .row_x = columns,
                                 .zeros_before = add ? 0 : before,
                                 .zeros_after = add ? 0 : width - before - columns});
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
      copy_rows<T>(y.device(), {.y = {y.data<T>() + begin, GradMode::set},  // [CAT-1]
                                .x = x.value().data<T>(),
                                .rows = rows_before(y.shape(), axis),
                                .columns = columns,
                                .row_y = row_size(y.shape(), axis),
                                .row_x = columns});
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
    copy_rows<T>(x.device(), {.y = {y.data<T>(), GradMode::set},  // [CUT-1]
                              .x = x.data<T>() + begin * inner,
                              .rows = rows,
                              .columns = (end - begin) * inner,
                              .row_y = (end - begin) * inner,
                              .row_x = row_size(x.shape(), axis)});
  });
  return xv.tape().record(y, {xv}, SliceNode{.axis = axis, .begin = begin});
}

}  // namespace foldgrad
