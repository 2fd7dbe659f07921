#include "ops/concat/concat.h"

#include "engine/graph/graph.h"
#include "engine/graph/onnx_graph.h"
#include "engine/node_grads.h"
#include "ops/permute/permute_kernels.h"

namespace foldgrad {
namespace {

// Return R and n * inner of a shape that is viewed as [R, n, inner] around an axis.
std::int64_t rows_before(const Shape& shape, int axis) {
  std::int64_t rows = 1;
  for (int a = 0; a < axis; ++a) rows *= shape[a];
  return rows;
}
std::int64_t row_size(const Shape& shape, int axis) { return shape[axis] * shape.stride(axis); }

// The columns of a tensor that begin at column `first`. The tensor is viewed as rows around an axis.
struct Columns {
  const Tensor& tensor;
  std::int64_t first;
};

// Copies `columns` columns of every row.
void copy_columns(const Columns& to, GradMode mode, const Columns& from, int axis, std::int64_t columns) {
  dispatch_floating("concat", from.tensor.dtype(), [&]<class T>(Type<T>) {
    const Permute<T> p{.y = {to.tensor.data<T>() + to.first, mode},
                       .x = from.tensor.data<T>() + from.first,
                       .rows = rows_before(from.tensor.shape(), axis),
                       .columns = columns,
                       .row_x = row_size(from.tensor.shape(), axis),
                       .row_y = row_size(to.tensor.shape(), axis),
                       .column_x = 1};
    FOLDGRAD_RUN(from.tensor.device(), permute, p);
  });
}

struct ConcatNode {
  int axis;
  std::vector<std::int64_t> row_sizes;  // n_k * inner for each operand

  const char* name() const { return "concat"; }

  // Differentiates concat [CAT-1]: computes dx of each operand [CAT-2].
  void backward(NodeGrads& grads) {
    std::int64_t begin = 0;
    for (std::size_t k = 0; k < row_sizes.size(); begin += row_sizes[k++]) {
      const auto [dx, mode] = grads.place(int(k), grads.dy().dtype());
      if (dx.defined()) copy_columns({dx, 0}, mode, {grads.dy(), begin}, axis, row_sizes[k]);  // [CAT-2]
    }
  }

  void describe(Description& d) const {
    d.passes = [this](const Graph& graph, const GraphUse& use, ChannelMap& map) -> std::string {
      if (axis != map.place.axis) return "concat joins along an axis other than the channels";
      for (int k = 0; k < use.operand; ++k) map.place.offset += graph.shape({use.node, k})[axis];
      return "";
    };
    d.onnx = [this](OnnxGraph& g, const OnnxOperands& in) {
      std::vector<std::string> operands;
      for (std::size_t k = 0; k < row_sizes.size(); ++k) operands.push_back(in[int(k)]);
      return g.node("Concat", operands, {{"axis", std::int64_t(axis)}});
    };
  }
};

struct SliceNode {
  int axis;
  std::int64_t begin;

  const char* name() const { return "slice"; }

  // Differentiates slice [CUT-1]: computes dx [CUT-2].
  void backward(NodeGrads& grads) {
    const Tensor& dy = grads.dy();
    auto [dx, mode] = grads.place(0, dy.dtype());
    if (mode == GradMode::set) dx.zero();
    const std::int64_t first = begin * dx.shape().stride(axis);
    copy_columns({dx, first}, mode, {dy, 0}, axis, row_size(dy.shape(), axis));  // [CUT-2]
  }

  void describe(Description& d) const {
    d.passes = [this](const Graph&, const GraphUse&, ChannelMap& map) -> std::string {
      return axis == map.place.axis ? "slice cuts the channels" : "";
    };
    d.onnx = [this](OnnxGraph& g, const OnnxOperands& in) {
      const std::int64_t end = begin + in.result()[axis];
      return g.node("Slice", {in[0], g.integers({begin}), g.integers({end}), g.integers({axis})});
    };
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
  std::int64_t begin = 0;
  for (const Var& x : xs) {
    row_sizes.push_back(row_size(x.shape(), axis));
    copy_columns({y, begin}, GradMode::set, {x.value(), 0}, axis, row_sizes.back());  // [CAT-1]
    begin += row_sizes.back();
  }
  return xs[0].tape().record(y, xs, ConcatNode{.axis = axis, .row_sizes = std::move(row_sizes)});
}

Var slice(const Var& xv, int axis, std::int64_t begin, std::int64_t end) {
  const Tensor& x = xv.value();
  check_floating("slice", "x", x, 1);
  axis = check_axis("slice", axis, x.shape());
  FOLDGRAD_CHECK(0 <= begin && begin <= end && end <= x.shape()[axis], "slice: [{}, {}) must lie within axis {} of {}",
                 begin, end, axis, x.shape());
  const Shape shape = x.shape().with(axis, end - begin);
  const std::int64_t inner = shape.stride(axis);
  if (rows_before(shape, axis) == 1) {
    const Tensor view = x.reshape(std::vector<std::int64_t>{-1}).slice(begin * inner, end * inner).reshape(shape);
    return xv.tape().record(view, {xv}, SliceNode{.axis = axis, .begin = begin});
  }
  const Tensor y = Tensor::empty(shape, x.dtype(), x.device());
  copy_columns({y, 0}, GradMode::set, {x, begin * inner}, axis, row_size(shape, axis));  // [CUT-1]
  return xv.tape().record(y, {xv}, SliceNode{.axis = axis, .begin = begin});
}

}  // namespace foldgrad
