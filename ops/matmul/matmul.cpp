#include "ops/matmul/matmul.h"

#include <numeric>
#include <utility>

#include "engine/gemm/gemm.h"
#include "engine/graph/description.h"
#include "engine/graph/onnx_graph.h"
#include "engine/node_grads.h"

namespace foldgrad {
namespace {

// The sizes of the products that multiply() computes. If all matrices of a batch share one b, the batch is one product
// with more rows.
struct ProductSizes {
  std::int64_t batch, m, n, k;
};

struct Matrix {
  const Tensor& tensor;
  bool transpose;
};

// Computes c = op(a) op(b) for each matrix of the batch, where c is [m, n] and all operands are dense.
void multiply(const Tensor& c, GradMode mode, Matrix a, Matrix b, const ProductSizes& s) {
  gemm(c.device(), c.dtype(),
       {.transpose_a = a.transpose,
        .transpose_b = b.transpose,
        .m = s.m,
        .n = s.n,
        .k = s.k,
        .batch = s.batch,
        .batch_stride_a = s.m * s.k,
        .batch_stride_b = s.k * s.n,
        .batch_stride_c = s.m * s.n,
        .beta = mode == GradMode::add ? 1.0 : 0.0},
       c.raw(), a.tensor.raw(), b.tensor.raw());
}

struct MatmulNode {
  Tensor a, b;
  bool transpose_a, transpose_b;
  ProductSizes s;

  const char* name() const { return "matmul"; }

  // Differentiates matmul [MM-1]: computes da [MM-2] and db [MM-3]. The gradient of a transposed operand is transposed.
  void backward(NodeGrads& grads) {
    const Tensor& dc = grads.dy();
    const auto [da, mode_a] = grads.place(0, dc.dtype());
    if (da.defined() && !transpose_a)
      multiply(da, mode_a, {dc, false}, {b, !transpose_b}, {s.batch, s.m, s.k, s.n});  // [MM-2]
    else if (da.defined())
      multiply(da, mode_a, {b, transpose_b}, {dc, true}, {s.batch, s.k, s.m, s.n});
    const auto [db, mode_b] = grads.place(1, dc.dtype());
    if (db.defined() && !transpose_b)
      multiply(db, mode_b, {a, !transpose_a}, {dc, false}, {s.batch, s.k, s.n, s.m});  // [MM-3]
    else if (db.defined())
      multiply(db, mode_b, {dc, true}, {a, transpose_a}, {s.batch, s.n, s.k, s.m});
  }
  void describe(Description& d) const {
    d.onnx = [this](OnnxGraph& g, const OnnxOperands& in) {
      const auto factor = [&](int k, bool transpose) {
        OnnxGraph::Sizes axes(std::size_t(in.shape(k).rank()));
        std::iota(axes.begin(), axes.end(), 0);
        std::swap(axes[axes.size() - 2], axes.back());
        return transpose ? g.transpose(in[k], axes) : in[k];
      };
      const std::string a_factor = factor(0, transpose_a), b_factor = factor(1, transpose_b);
      return g.node("MatMul", {a_factor, b_factor});
    };
  }
};

std::vector<std::int64_t> leading_axes(const Tensor& t) { return {t.shape().begin(), t.shape().end() - 2}; }

}  // namespace

Var matmul(const Var& av, const Var& bv, bool transpose_a, bool transpose_b) {
  const Tensor &a = av.value(), &b = bv.value();
  check_floating("matmul", "a", a, 2);
  check_floating("matmul", "b", b, 2);
  const std::vector<std::int64_t> leading = leading_axes(a);
  const bool single_b = b.shape().rank() == 2 && !leading.empty();
  FOLDGRAD_CHECK(!single_b || !transpose_a, "matmul: a must not be transposed if b is a single matrix, got a {}, b {}",
                 a.shape(), b.shape());
  const std::int64_t m = a.shape()[transpose_a ? -1 : -2], k = a.shape()[transpose_a ? -2 : -1],
                     n = b.shape()[transpose_b ? -2 : -1];
  std::vector<std::int64_t> wanted = single_b ? std::vector<std::int64_t>() : leading, sizes = leading;
  wanted.insert(wanted.end(), {transpose_b ? n : k, transpose_b ? k : n});
  check_operand("matmul", "b", b, Shape(wanted), a, "a");

  sizes.insert(sizes.end(), {m, n});
  const Tensor c = Tensor::empty(Shape(sizes), a.dtype(), a.device());
  const std::int64_t batch = Shape(leading).elements();
  const ProductSizes s = single_b ? ProductSizes{1, batch * m, n, k} : ProductSizes{batch, m, n, k};
  multiply(c, GradMode::set, {a, transpose_a}, {b, transpose_b}, s);  // [MM-1]
  return av.tape().record(c, {av, bv},
                          MatmulNode{.a = a, .b = b, .transpose_a = transpose_a, .transpose_b = transpose_b, .s = s});
}

}  // namespace foldgrad
