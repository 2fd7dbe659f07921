#include "ops/linear/joint_linear.h"

#include "engine/gemm/gemm.h"
#include "ops/linear/side_by_side.h"
#include "ops/total/total.h"

namespace foldgrad {
namespace {

double beta(GradMode mode) { return mode == GradMode::add ? 1 : 0; }

// Of a layer, where a gradient goes: null, to C of a product, or to sums over rows.
struct Place {
  char* at = nullptr;
  std::size_t bytes = 0;
  DType dtype = DType::f32;
  GradMode mode = GradMode::set;
};

// Whether one kernel can write them all, from the first one's beginning.
bool as_one(const std::vector<Place>& places) {
  for (std::size_t k = 0; k < places.size(); ++k) {
    if (!places[k].at || places[k].dtype != places[0].dtype || places[k].mode != places[0].mode) return false;
    if (k > 0 && places[k].at != places[k - 1].at + places[k - 1].bytes) return false;
  }
  return true;
}

struct JointLinearNode {
  Tensor x;
  std::vector<Tensor> weights;  // side by side

  const char* name() const { return "joint_linear"; }

  void backward(NodeGrads& grads) {
    const Tensor& dy = grads.dy();
    const std::int64_t out = dy.shape()[-1], in = x.shape()[-1], rows = dy.shape().without(-1).elements();
    if (const auto [dx, mode] = grads.place(0); dx.defined())
      gemm(dy.device(), dy.dtype(), {.m = rows, .n = in, .k = out, .beta = beta(mode)}, dx.raw(), dy.raw(),
           weights[0].raw());  // [LIN-2]
    std::vector<Place> dW;
    for (std::size_t k = 0; k < weights.size(); ++k) {
      const auto [place, mode] = grads.exact_place(int(k) + 1);
      dW.push_back({static_cast<char*>(place.raw()), place.bytes(), place.dtype(), mode});
    }
    products(dy, dW, x, in);  // [LIN-3]
    dispatch_floating(name(), dy.dtype(), [&]<class T>(Type<T>) { bias_gradients<T>(grads, dy); });
  }

 private:
  // dy_k^T b for the columns dy_k of each layer, b [rows, n].
  void products(const Tensor& dy, const std::vector<Place>& places, const Tensor& b, std::int64_t n) const {
    const std::int64_t columns = dy.shape()[-1], rows = dy.shape().without(-1).elements();
    const auto product = [&](const Place& place, std::int64_t first, std::int64_t m) {
      const Gemm g{.transpose_a = true,
                   .m = m,
                   .n = n,
                   .k = rows,
                   .row_stride_a = columns,
                   .beta = beta(place.mode),
                   .f32_c = place.dtype != dy.dtype()};
      const char* a = static_cast<const char*>(dy.raw());
      gemm(dy.device(), dy.dtype(), g, place.at, a ? a + first * std::int64_t(size_of(dy.dtype())) : a, b.raw());
    };
    if (as_one(places)) return product(places[0], 0, columns);
    std::int64_t first = 0;
    for (std::size_t k = 0; k < places.size(); ++k) {
      if (places[k].at) product(places[k], first, weights[k].shape()[0]);
      first += weights[k].shape()[0];
    }
  }

  template <class T>
  void bias_gradients(NodeGrads& grads, const Tensor& dy) const {
    std::vector<Place> db;
    ParameterGradOut<T> first;
    for (std::size_t k = 0; k < weights.size(); ++k) {
      const ParameterGradOut<T> out = grads.exact_out<T>(int(weights.size() + k) + 1);
      if (k == 0) first = out;
      const DType dtype = out.exact ? dtype_of<compute_t<T>> : dtype_of<T>;
      void* at = out.exact ? static_cast<void*>(out.exact) : out.data;
      db.push_back({static_cast<char*>(at), std::size_t(weights[k].shape()[0]) * size_of(dtype), dtype, out.mode});
    }
    const std::int64_t rows = dy.shape().without(-1).elements();
    if (as_one(db)) {
      const ColumnTotals<T> totals{.out = first, .values = dy.data<T>(), .rows = rows, .columns = dy.shape()[-1]};
      FOLDGRAD_RUN(dy.device(), total, totals);  // [LIN-4]
    } else {
      products(dy, db, Tensor::full({rows}, 1, dy.dtype(), dy.device()), 1);
    }
  }
};

std::vector<Tensor> laid_side_by_side(const std::vector<Var>& operands) {
  std::vector<Tensor> values;
  std::vector<Shape> shapes;
  for (const Var& v : operands) values.push_back(v.value()), shapes.push_back(v.shape());
  if (side_by_side(values)) return values;
  std::vector<Tensor> places = empty_side_by_side(shapes, values[0].dtype(), values[0].device());
  for (std::size_t k = 0; k < values.size(); ++k) places[k].copy_from(values[k]);
  return places;
}

// Returns how many columns y has.
std::int64_t check_layers(const Tensor& x, const std::vector<Var>& weights, const std::vector<Var>& biases) {
  FOLDGRAD_CHECK(
      !weights.empty() && weights.size() == biases.size(),
      "joint_linear: there must be as many biases as weights, and at least one, got {} weights and {} biases",
      weights.size(), biases.size());
  std::int64_t columns = 0;
  for (std::size_t k = 0; k < weights.size(); ++k) {
    check_floating("joint_linear", "weight", weights[k].value(), 1);
    const std::int64_t out = weights[k].shape()[0];
    check_operand("joint_linear", "weight", weights[k].value(), {out, x.shape()[-1]}, x, "x");
    check_operand("joint_linear", "bias", biases[k].value(), {out}, x, "x");
    columns += out;
  }
  return columns;
}

}  // namespace

Var joint_linear(const Var& xv, const std::vector<Var>& weights, const std::vector<Var>& biases) {
  const Tensor& x = xv.value();
  check_floating("joint_linear", "x", x, 1);
  const std::int64_t in = x.shape()[-1], out = check_layers(x, weights, biases);
  const std::vector<Tensor> W = laid_side_by_side(weights), b = laid_side_by_side(biases);
  const Tensor y = Tensor::empty(x.shape().with(-1, out), x.dtype(), x.device());
  gemm(x.device(), x.dtype(), {.transpose_b = true, .m = x.shape().without(-1).elements(), .n = out, .k = in}, y.raw(),
       x.raw(), W[0].raw(), b[0].raw());  // [LIN-5]
  std::vector<Var> operands{xv};
  operands.insert(operands.end(), weights.begin(), weights.end());
  operands.insert(operands.end(), biases.begin(), biases.end());
  return xv.tape().record(y, operands, JointLinearNode{.x = x, .weights = W});
}

}  // namespace foldgrad
