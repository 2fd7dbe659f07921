#include "ops/permute/permute.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "engine/graph/graph.h"
#include "engine/graph/onnx_graph.h"
#include "engine/node_grads.h"
#include "ops/permute/permute_kernels.h"

namespace foldgrad {
namespace {

// An axis of y, with its strides in x and y.
struct Axis {
  std::int64_t size, x, y;
};

// Returns the axes of y, outermost first, without axes of size 1. Merges axes that are adjacent in both x and y.
std::vector<Axis> merged_axes(const Shape& x, const std::vector<int>& axes) {
  std::vector<Axis> merged;
  std::int64_t y_stride = x.elements();
  for (int axis : axes) {
    const std::int64_t size = x[axis], x_stride = x.stride(axis);
    if (size == 1) continue;
    y_stride /= size;
    if (!merged.empty() && merged.back().x == x_stride * size)
      merged.back() = {merged.back().size * size, x_stride, y_stride};
    else
      merged.push_back({size, x_stride, y_stride});
  }
  return merged;
}

// Treats x and y as matrices. Their two axes are the innermost axes of y and of x or, if these are the same, the two
// innermost axes of y.
template <class T>
Permute<T> permute_of(const Shape& x_shape, const std::vector<int>& axes, const T* x, const GradOut<T>& y) {
  std::vector<Axis> left = merged_axes(x_shape, axes);
  while (left.size() < 2) left.insert(left.begin(), {1, 1, 1});
  const Axis column = left.back();
  left.pop_back();
  const auto innermost = column.x == 1 ? left.end() - 1 : std::ranges::find(left, 1, &Axis::x);
  const Axis row = *innermost;
  left.erase(innermost);
  FOLDGRAD_CHECK(left.size() <= kPermuteOuterAxes, "permute: at most {} groups of axes may change their order, got {}",
                 kPermuteOuterAxes + 2, left.size() + 2);
  Permute<T> p{.y = y,
               .x = x,
               .outer_axes = int(left.size()),
               .rows = row.size,
               .columns = column.size,
               .row_x = row.x,
               .row_y = row.y,
               .column_x = column.x};
  for (std::size_t a = 0; a < left.size(); ++a) {
    p.outer_size[a] = left[a].size;
    p.outer_x[a] = left[a].x;
    p.outer_y[a] = left[a].y;
    p.matrices *= left[a].size;
  }
  return p;
}

void run(const Tensor& y, GradMode mode, const Tensor& x, const std::vector<int>& axes) {
  if (x.size() == 0) return;
  dispatch_floating("permute", x.dtype(), [&]<class T>(Type<T>) {
    const Permute<T> p = permute_of<T>(x.shape(), axes, x.data<T>(), {y.data<T>(), mode});
    FOLDGRAD_RUN(x.device(), permute, p);
  });
}

struct PermuteNode {
  std::vector<int> axes;

  const char* name() const { return "permute"; }

  // Differentiates permute [PER-1]: computes dx [PER-2].
  void backward(NodeGrads& grads) {
    std::vector<int> inverse(axes.size());
    for (std::size_t k = 0; k < axes.size(); ++k) inverse[axes[k]] = int(k);
    const auto [dx, mode] = grads.place(0, grads.dy().dtype());
    run(dx, mode, grads.dy(), inverse);  // [PER-2]
  }

  void describe(Description& d) const {
    if (!axes.empty() && axes.back() + 1 == int(axes.size())) d.numbers = Description::Numbers::same_rows;
    d.passes = [this](const Graph&, const GraphUse&, ChannelMap& map) -> std::string {
      map.place.axis = int(std::find(axes.begin(), axes.end(), map.place.axis) - axes.begin());
      return "";
    };
    d.onnx = [this](OnnxGraph& g, const OnnxOperands& in) { return g.transpose(in[0], {axes.begin(), axes.end()}); };
  }
};

}  // namespace

Var permute(const Var& xv, const std::vector<int>& axes) {
  const Tensor& x = xv.value();
  check_floating("permute", "x", x);
  std::vector<int> all(std::size_t(x.shape().rank()));
  std::iota(all.begin(), all.end(), 0);
  FOLDGRAD_CHECK(std::ranges::is_permutation(axes, all),
                 "permute: axes must contain each of the {} axes of {} exactly once, got [{}]", all.size(), x.shape(),
                 fmt::join(axes, ", "));

  std::vector<std::int64_t> sizes;
  for (int axis : axes) sizes.push_back(x.shape()[axis]);
  const Tensor y = Tensor::empty(Shape(sizes), x.dtype(), x.device());
  run(y, GradMode::set, x, axes);  // [PER-1]
  return xv.tape().record(y, {xv}, PermuteNode{.axes = axes});
}

}  // namespace foldgrad
