// Operations on elements, shapes and products.
#include "ops/activation/activation.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/cast/cast.h"
#include "ops/concat/concat.h"
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

using Reduced = Var (*)(const Var&);

TapeVar joined(const std::vector<TapeVar>& xs, int axis) {
  FOLDGRAD_CHECK(!xs.empty(), "concat: there must be at least one tensor");
  std::vector<Var> vars;
  for (const TapeVar& x : xs) vars.push_back(x.var);
  return record(xs[0], [&] { return concat(vars, axis); });
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
  m.def(
      "linear",
      [](const TapeVar& x, const TapeVar& weight, const std::optional<TapeVar>& bias) {
        return record(x, [&] { return bias ? linear(x.var, weight.var, bias->var) : linear(x.var, weight.var); });
      },
      "x"_a, "weight"_a, "bias"_a = nb::none(), doc("linear"));
  m.def("matmul", op(&matmul), "a"_a, "b"_a, "transpose_a"_a = false, "transpose_b"_a = false, doc("matmul"));
  m.def("embedding", op(&embedding), "table"_a, "ids"_a, "scale"_a = 1.0, "padding_id"_a = -1, doc("embedding"));
  m.def("gather", op(&gather), "x"_a, "ids"_a, doc("gather"));
  m.def("add", op(&add), "a"_a, "b"_a, doc("add"));
  m.def("sub", op(&sub), "a"_a, "b"_a, doc("sub"));
  m.def("mul", op(&mul), "a"_a, "b"_a, doc("mul"));
  m.def("scale", op(&scale), "x"_a, "s"_a, doc("scale"));
  m.def("add_bias", op(&add_bias), "x"_a, "bias"_a, doc("add_bias"));
}

void add_activations(nb::module_& m) {
  for (const Activation activation : kActivations)
    m.def(
        name(activation),
        [activation](const TapeVar& x) { return record(x, [&] { return activate(x.var, activation); }); }, "x"_a,
        doc("activate"));
  m.def(
      "activate",
      [](const TapeVar& x, const std::string& activation) {
        const Activation chosen = activation_named(activation);
        return record(x, [&] { return activate(x.var, chosen); });
      },
      "x"_a, "activation"_a, doc("activate"));
  m.def(
      "bias_activation",
      [](const TapeVar& x, const TapeVar& bias, const std::string& activation) {
        const Activation chosen = activation_named(activation);
        return record(x, [&] { return bias_activation(x.var, bias.var, chosen); });
      },
      "x"_a, "bias"_a, "activation"_a, doc("bias_activation"));
  m.def(
      "bias_activation_dropout",
      [](const TapeVar& x, const TapeVar& bias, const std::string& activation, double p, std::uint64_t seed,
         std::uint32_t step, std::uint32_t stream) {
        const Activation chosen = activation_named(activation);
        return record(x, [&] { return bias_activation_dropout(x.var, bias.var, chosen, p, {seed, stream, step}); });
      },
      "x"_a, "bias"_a, "activation"_a, "p"_a, nb::kw_only(), "seed"_a, "step"_a, "stream"_a = 0,
      doc("bias_activation_dropout"));
}

void add_dropout(nb::module_& m) {
  m.def(
      "dropout",
      [](const TapeVar& x, double p, std::uint64_t seed, std::uint32_t step, std::uint32_t stream) {
        return record(x, [&] { return dropout(x.var, p, {seed, stream, step}); });
      },
      "x"_a, "p"_a, nb::kw_only(), "seed"_a, "step"_a, "stream"_a = 0, doc("dropout"));
  m.def(
      "bias_dropout_residual",
      [](const TapeVar& x, const TapeVar& bias, const TapeVar& residual, double p, std::uint64_t seed,
         std::uint32_t step, std::uint32_t stream, double path_p, std::int64_t path_rows, std::uint32_t path_stream) {
        const DropPath path{.p = path_p, .random = {seed, path_stream, step}, .rows = path_rows};
        return record(x, [&] {
          return bias_dropout_residual(x.var, bias.var, residual.var, p, {seed, stream, step}, path);
        });
      },
      "x"_a, "bias"_a, "residual"_a, "p"_a, nb::kw_only(), "seed"_a, "step"_a, "stream"_a = 0, "path_p"_a = 0.0,
      "path_rows"_a = 1, "path_stream"_a = 1, doc("bias_dropout_residual"));
}

void add_shapes(nb::module_& m) {
  m.def("permute", op(&permute), "x"_a, "axes"_a, doc("permute"));
  m.def("flip", op(&flip), "x"_a, "axis"_a, doc("flip"));
  m.def(
      "reindex",
      [](const TapeVar& x, const std::vector<std::int64_t>& order) {
        return record(x, [&] { return reindex(x.var, RowOrder(order, x.var.device())); });
      },
      "x"_a, "order"_a, doc("reindex"));
  m.def("reshape", op(&reshape), "x"_a, "sizes"_a, doc("reshape"));
  m.def("concat", joined, "xs"_a, "axis"_a, doc("concat"));
  m.def("slice", op(&slice), "x"_a, "axis"_a, "begin"_a, "end"_a, doc("slice"));
  m.def(
      "cast",
      [](const TapeVar& x, const std::string& dtype) {
        const DType to = dtype_named(dtype);
        return record(x, [&] { return cast(x.var, to); });
      },
      "x"_a, "dtype"_a, doc("cast"));
  m.def("sum", op(Reduced(&sum)), "x"_a, doc("sum"));
  m.def("mean", op(Reduced(&mean)), "x"_a, doc("mean"));
  m.def("mean_pool", op(&mean_pool), "x"_a, doc("mean_pool"));
  m.def("weighted_pool", op(&weighted_pool), "x"_a, "w"_a, doc("weighted_pool"));
  m.def("gate", op(&gate), "x"_a, "w"_a, doc("gate"));
  m.def(
      "top_k",
      [](nb::handle x, std::int64_t k) {
        const Tensor of = to_tensor(x);
        TopK result = native([&] { return top_k(of, k); });
        return nb::make_tuple(result.values, result.indices, result.log_sum_exp);
      },
      "x"_a, "k"_a, nb::sig("def top_k(x: object, k: int) -> tuple[Tensor, Tensor, Tensor]"), doc("top_k"));
}

}  // namespace

void add_elementwise_ops(nb::module_& m) {
  add_products(m);
  add_activations(m);
  m.def("softmax", op(&softmax), "x"_a, doc("softmax"));
  add_dropout(m);
  add_shapes(m);
}

}  // namespace foldgrad::python
