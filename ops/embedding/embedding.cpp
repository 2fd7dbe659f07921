#include "ops/embedding/embedding.h"

#include "engine/graph/graph.h"
#include "engine/graph/onnx_graph.h"
#include "engine/node_grads.h"
#include "ops/embedding/embedding_kernels.h"

namespace foldgrad {
namespace {

struct EmbeddingNode {
  const char* op;
  Tensor ids;
  std::int64_t rows, columns;  // of the table
  double scale;
  std::int64_t padding_id;

  const char* name() const { return op; }

  // Differentiates embedding and gather [EMB-1]: computes dx [EMB-2].
  void backward(NodeGrads& grads) {
    const Tensor& dy = grads.dy();
    dispatch_floating(op, dy.dtype(), [&]<class T>(Type<T>) {
      const EmbeddingBackward<T> p{.dx = grads.out<compute_t<T>>(0),
                                   .dy = dy.data<T>(),
                                   .ids = ids.data<std::int64_t>(),
                                   .positions = ids.size(),
                                   .rows = rows,
                                   .columns = columns,
                                   .scale = compute_t<T>(scale),
                                   .padding_id = padding_id};
      FOLDGRAD_RUN(dy.device(), embedding, p);
    });
  }

  void describe(Description& d) const {
    d.table = 0;
    d.scale = scale;
    d.passes = [this](const Graph&, const GraphUse& use, ChannelMap& map) -> std::string {
      if (use.operand != 0) return fmt::format("{} uses this tensor as its ids", op);
      if (map.place.axis == 0) return fmt::format("{} selects channels", op);
      map.place.axis += ids.shape().rank() - 1;
      for (double& b : map.map.B) b *= scale;
      return "";
    };
    d.onnx = [this](OnnxGraph& g, const OnnxOperands& in) {
      const std::string y = g.node("Gather", {in[0], in.constant(1, ids)});
      return scale == 1 ? y : g.node("Mul", {y, g.number(scale)});
    };
  }
};

void check_ids(const char* op, const Tensor& ids, std::int64_t rows) {
  const std::int64_t* id = ids.data<std::int64_t>();
  for (std::int64_t m = 0; m < ids.size(); ++m)
    FOLDGRAD_CHECK(0 <= id[m] && id[m] < rows, "{}: ids must be in [0, {}), got {} at position {} of {}", op, rows,
                   id[m], m, ids.shape());
}

Var rows_by_id(const char* op, const Var& xv, const Var& idsv, double scale, std::int64_t padding_id) {
  const Tensor &x = xv.value(), &ids = idsv.value();
  check_operand(op, "ids", ids, ids.shape(), DType::i64, x, "the table");
  FOLDGRAD_CHECK(ids.size() < std::int64_t(1) << 31, "{}: there must be fewer than 2^31 ids, got {}", op, ids.shape());
  const std::int64_t rows = x.shape()[0], columns = x.shape().without(0).elements();
  if (x.device() == Device::cpu) check_ids(op, ids, rows);

  std::vector<std::int64_t> sizes = ids.shape().sizes();
  sizes.insert(sizes.end(), x.shape().begin() + 1, x.shape().end());
  const Tensor y = Tensor::empty(Shape(sizes), x.dtype(), x.device());
  dispatch_floating(op, x.dtype(), [&]<class T>(Type<T>) {
    const EmbeddingForward<T> p{.y = y.data<T>(),
                                .x = x.data<T>(),
                                .ids = ids.data<std::int64_t>(),
                                .positions = ids.size(),
                                .rows = rows,
                                .columns = columns,
                                .scale = compute_t<T>(scale)};
    FOLDGRAD_RUN(x.device(), embedding, p);
  });
  const EmbeddingNode node{
      .op = op, .ids = ids, .rows = rows, .columns = columns, .scale = scale, .padding_id = padding_id};
  return xv.tape().record(y, {xv, idsv}, node);
}

}  // namespace

Var embedding(const Var& table, const Var& ids, double scale, std::int64_t padding_id) {
  check_floating("embedding", "table", table.value(), 2);
  FOLDGRAD_CHECK(table.shape().rank() == 2, "embedding: table must be [V, C], got {}", table.shape());
  FOLDGRAD_CHECK(-1 <= padding_id && padding_id < table.shape()[0],
                 "embedding: padding_id must be a row of the table {} or -1, got {}", table.shape(), padding_id);
  return rows_by_id("embedding", table, ids, scale, padding_id);
}

Var gather(const Var& x, const Var& ids) {
  check_floating("gather", "x", x.value(), 1);
  return rows_by_id("gather", x, ids, 1, -1);
}

}  // namespace foldgrad
