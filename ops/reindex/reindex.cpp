#include "ops/reindex/reindex.h"

#include <fmt/ranges.h>

#include "engine/cpu/rows.h"
#include "engine/graph/graph.h"
#include "engine/graph/onnx_graph.h"
#include "engine/node_grads.h"
#include "ops/reindex/reindex_kernels.h"

namespace foldgrad {

template <class T>
void reindex_cpu(const Reindex<T>& p) {
  for_rows_cpu(p.blocks * p.rows, p.columns, [&p](std::int64_t r) {
    const GradOut<T> y{p.y.data + r * p.columns, p.y.mode};
    const T* x = p.from(r / p.rows, r % p.rows);
#pragma omp simd
    for (std::int64_t c = 0; c < p.columns; ++c) y.put(c, x[c]);
  });
}

namespace {

void run(const Tensor& y, GradMode mode, const Tensor& x, const Tensor& order) {
  const std::int64_t rows = order.size();
  if (x.size() == 0) return;
  dispatch_floating("reindex", x.dtype(), [&]<class T>(Type<T>) {
    const Reindex<T> p{.y = {y.data<T>(), mode},
                       .x = x.data<T>(),
                       .order = order.data<std::int64_t>(),
                       .blocks = x.shape()[0] / rows,
                       .rows = rows,
                       .columns = x.shape()[1]};
    FOLDGRAD_RUN(x.device(), reindex, p);
  });
}

struct ReindexNode {
  RowOrder order;

  const char* name() const { return "reindex"; }

  // Differentiates reindex [REINDEX-1]: computes dx [REINDEX-2].
  void backward(NodeGrads& grads) {
    const auto [dx, mode] = grads.place(0, grads.dy().dtype());
    run(dx, mode, grads.dy(), order.inverse);  // [REINDEX-2]
  }

  void describe(Description& d) const {
    d.numbers = Description::Numbers::same_rows;
    d.passes = [](const Graph&, const GraphUse&, ChannelMap& map) -> std::string {  // [REINDEX-3]
      return map.place.axis == 1 ? "" : "reindex moves channels";
    };
    d.onnx = [this](OnnxGraph& g, const OnnxOperands& in) {
      const std::int64_t rows = order.order.size(), columns = in.result()[1];
      const std::int64_t* numbers = order.order.data<std::int64_t>();
      const std::string blocks = g.reshape(in[0], {rows, columns});
      const std::string y =
          g.node("Gather", {blocks, g.integers({numbers, numbers + rows})}, {{"axis", std::int64_t(1)}});
      return g.reshape(y, {columns});
    };
  }
};

}  // namespace

RowOrder::RowOrder(const std::vector<std::int64_t>& order, Device device) {
  const auto N = std::int64_t(order.size());
  std::vector<std::int64_t> inverse(order.size(), -1);
  for (std::int64_t n = 0; n < N; ++n) {
    const std::int64_t from = order[std::size_t(n)];
    FOLDGRAD_CHECK(from >= 0 && from < N && inverse[std::size_t(from)] < 0,
                   "reindex: the order must contain each of 0 ... {} exactly once, got [{}]", N - 1,
                   fmt::join(order, ", "));
    inverse[std::size_t(from)] = n;
  }
  this->order = Tensor::of({N}, order).to(device);
  this->inverse = Tensor::of({N}, inverse).to(device);
}

Var reindex(const Var& xv, const RowOrder& order) {
  const Tensor& x = xv.value();
  check_floating("reindex", "x", x, 2);
  const std::int64_t N = order.order.size();
  FOLDGRAD_CHECK(x.shape().rank() == 2 && (x.shape()[0] == 0 || (N > 0 && x.shape()[0] % N == 0)),
                 "reindex: x must be [rows, columns] with a multiple of {} rows, the length of the order, got {}", N,
                 describe(x));
  FOLDGRAD_CHECK(order.order.device() == x.device(), "reindex: the order must be on {}, like x, got {}",
                 name(x.device()), name(order.order.device()));
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  run(y, GradMode::set, x, order.order);  // [REINDEX-1]
  return xv.tape().record(y, {xv}, ReindexNode{.order = order});
}

}  // namespace foldgrad
