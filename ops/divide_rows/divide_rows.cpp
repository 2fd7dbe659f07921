#include "ops/divide_rows/divide_rows.h"

#include "engine/cpu/row_op.h"
#include "engine/graph/description.h"
#include "engine/graph/onnx_graph.h"
#include "engine/node_grads.h"
#include "ops/divide_rows/divide_rows_kernels.h"

namespace foldgrad {
namespace {

struct DivideRowsNode {
  Tensor y, d;
  double eps;

  const char* name() const { return "divide_rows"; }

  // Differentiates divide_rows [DIV-1]: computes dn [DIV-2] and dd [DIV-3].
  void backward(NodeGrads& grads) {
    dispatch_floating(name(), y.dtype(), [&]<class T>(Type<T>) {
      const DivideRowsBackward<T> p{.dn = grads.out<T>(0),
                                    .dd = grads.out<T>(1),
                                    .dy = grads.dy().data<T>(),
                                    .y = y.data<T>(),
                                    .d = d.data<T>(),
                                    .rows = d.size(),
                                    .columns = y.shape()[-1],
                                    .eps = compute_t<T>(eps)};
      FOLDGRAD_RUN(y.device(), row_op, p);
    });
  }
  void describe(Description& description) const {
    description.onnx = [this](OnnxGraph& g, const OnnxOperands& in) {
      const std::string divisors = g.node("Add", {in[1], g.number(eps)});
      return g.node("Div", {in[0], g.node("Unsqueeze", {divisors, g.integers({-1})})});
    };
  }
};

}  // namespace

Var divide_rows(const Var& nv, const Var& dv, double eps) {
  const Tensor &n = nv.value(), &d = dv.value();
  check_floating("divide_rows", "n", n, 1);
  check_operand("divide_rows", "d", d, n.shape().without(-1), n, "n");
  FOLDGRAD_CHECK(eps >= 0, "divide_rows: eps must not be negative, got {}", eps);
  const Tensor y = Tensor::empty(n.shape(), n.dtype(), n.device());
  dispatch_floating("divide_rows", n.dtype(), [&]<class T>(Type<T>) {
    const DivideRowsForward<T> p{.y = y.data<T>(),
                                 .n = n.data<T>(),
                                 .d = d.data<T>(),
                                 .rows = d.size(),
                                 .columns = n.shape()[-1],
                                 .eps = compute_t<T>(eps)};
    FOLDGRAD_RUN(n.device(), row_op, p);
  });
  return nv.tape().record(y, {nv, dv}, DivideRowsNode{.y = y, .d = d, .eps = eps});
}

}  // namespace foldgrad
