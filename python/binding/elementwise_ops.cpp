// Operations on elements, shapes and products.
#include <nanobind/stl/tuple.h>

#include "ops/activation/activation.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/cast/cast.h"
#include "ops/concat/concat.h"
#include "ops/divide_rows/divide_rows.h"
#include "ops/dropout/dropout.h"
#include "ops/embedding/embedding.h"
#include "ops/flip/flip.h"
#include "ops/gate/gate.h"
#include "ops/linear/linear.h"
#include "ops/matmul/matmul.h"
#include "ops/permute/permute.h"
#include "ops/reduce/reduce.h"
#include "ops/reindex/reindex.h"
#include "ops/reshape/reshape.h"
#include "ops/softmax/softmax.h"
#include "ops/top_k/top_k.h"
#include "ops/weighted_pool/weighted_pool.h"
#include "python/binding/arrays.h"
#include "python/binding/tape.h"

namespace foldgrad::python {
namespace {

using std::tuple;
using Reduced = Var (*)(const Var&);

TapeVar joined(const std::vector<TapeVar>& xs, int axis) {
  FOLDGRAD_CHECK(!xs.empty(), "concat: there must be at least one tensor");
  std::vector<Var> vars;
  for (const TapeVar& x : xs) vars.push_back(x.var);
  return record(xs[0], [&] { return concat(vars, axis); });
}

std::tuple<Tensor, Tensor, Tensor> largest(nb::handle x, std::int64_t k) {
  const TopK result = native([&, of = to_tensor(x)] { return top_k(of, k); });
  return {result.values, result.indices, result.log_sum_exp};
}

}  // namespace

Activation activation_named(const std::string& name) {
  std::string all;
  for (const Activation known : kActivations) {
    if (name == foldgrad::name(known)) return known;
    all += (all.empty() ? "" : ", ") + std::string(foldgrad::name(known));
  }
  throw nb::value_error(fmt::format("activation must be one of {}, got \"{}\"", all, name).c_str());
}

namespace {

void add_products(nb::module_& m) {
  def_op(
      m, "linear", tuple{"x"_a, "weight"_a, "bias"_a = nb::none()},
      +[](const Var& x, const Var& weight, const OptionalVar& bias) {
        return bias ? linear(x, weight, *bias) : linear(x, weight);
      });
  def_op(m, "matmul", tuple{"a"_a, "b"_a, "transpose_a"_a = false, "transpose_b"_a = false}, &matmul);
  def_op(m, "embedding", tuple{"table"_a, "ids"_a, "scale"_a = 1.0, "padding_id"_a = -1}, &embedding);
  def_op(m, "gather", tuple{"x"_a, "ids"_a}, &gather);
  def_op(m, "add", tuple{"a"_a, "b"_a}, &add);
  def_op(m, "sub", tuple{"a"_a, "b"_a}, &sub);
  def_op(m, "mul", tuple{"a"_a, "b"_a}, &mul);
  def_op(m, "scale", tuple{"x"_a, "s"_a}, &scale);
  def_op(m, "add_bias", tuple{"x"_a, "bias"_a}, &add_bias);
}

void add_activations(nb::module_& m) {
  for (const Activation activation : kActivations)
    m.def(
        name(activation),
        [activation](const TapeVar& x) { return record(x, [&] { return activate(x.var, activation); }); }, "x"_a,
        doc("activate"));
  def_op(m, "activate", tuple{"x"_a, "activation"_a}, &activate);
  def_op(m, "bias_activation", tuple{"x"_a, "bias"_a, "activation"_a}, &bias_activation);
  def_op(
      m, "bias_activation_dropout",
      tuple{"x"_a, "bias"_a, "activation"_a, "p"_a, nb::kw_only(), "seed"_a, "step"_a, "stream"_a = 0},
      +[](const Var& x, const Var& bias, Activation activation, double p, std::uint64_t seed, std::uint32_t step,
          std::uint32_t stream) {
        return bias_activation_dropout(x, bias, activation, p, {seed, stream, step});
      });
}

void add_dropout(nb::module_& m) {
  def_op(
      m, "dropout", tuple{"x"_a, "p"_a, nb::kw_only(), "seed"_a, "step"_a, "stream"_a = 0},
      +[](const Var& x, double p, std::uint64_t seed, std::uint32_t step, std::uint32_t stream) {
        return dropout(x, p, {seed, stream, step});
      });
  def_op(
      m, "bias_dropout_residual",
      tuple{"x"_a, "bias"_a, "residual"_a, "p"_a, nb::kw_only(), "seed"_a, "step"_a, "stream"_a = 0, "path_p"_a = 0.0,
            "path_rows"_a = 1, "path_stream"_a = 1},
      +[](const Var& x, const Var& bias, const Var& residual, double p, std::uint64_t seed, std::uint32_t step,
          std::uint32_t stream, double path_p, std::int64_t path_rows, std::uint32_t path_stream) {
        const DropPath path{.p = path_p, .random = {seed, path_stream, step}, .rows = path_rows};
        return bias_dropout_residual(x, bias, residual, p, {seed, stream, step}, path);
      });
}

void add_shapes(nb::module_& m) {
  def_op(m, "permute", tuple{"x"_a, "axes"_a}, &permute);
  def_op(m, "flip", tuple{"x"_a, "axis"_a}, &flip);
  def_op(
      m, "reindex", tuple{"x"_a, "order"_a},
      +[](const Var& x, const std::vector<std::int64_t>& order) { return reindex(x, RowOrder(order, x.device())); });
  def_op(m, "reshape", tuple{"x"_a, "sizes"_a}, &reshape);
  m.def("concat", joined, "xs"_a, "axis"_a, doc("concat"));
  def_op(m, "slice", tuple{"x"_a, "axis"_a, "begin"_a, "end"_a}, &slice);
  def_op(m, "cast", tuple{"x"_a, "dtype"_a}, &cast);
  def_op(m, "sum", tuple{"x"_a}, Reduced(&sum));
  def_op(m, "mean", tuple{"x"_a}, Reduced(&mean));
  def_op(m, "mean_pool", tuple{"x"_a}, &mean_pool);
  def_op(m, "weighted_pool", tuple{"x"_a, "w"_a}, &weighted_pool);
  def_op(m, "gate", tuple{"x"_a, "w"_a}, &gate);
  m.def("top_k", largest, "x"_a, "k"_a, doc("top_k"));
}

}  // namespace

void add_elementwise_ops(nb::module_& m) {
  add_products(m);
  add_activations(m);
  def_op(m, "softmax", tuple{"x"_a}, &softmax);
  def_op(m, "divide_rows", tuple{"n"_a, "d"_a, "eps"_a}, &divide_rows);
  add_dropout(m);
  add_shapes(m);
}

}  // namespace foldgrad::python
