// Binds the operations of docs/ops.md.
#include <nanobind/stl/array.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>

#include "ops/activation/activation.h"
#include "ops/affine/affine.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/attention/attention.h"
#include "ops/cast/cast.h"
#include "ops/center_norm/center_norm.h"
#include "ops/concat/concat.h"
#include "ops/conv2d/conv2d.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/divide_rows/divide_rows.h"
#include "ops/dropout/dropout.h"
#include "ops/dyt/dyt.h"
#include "ops/embedding/embedding.h"
#include "ops/flip/flip.h"
#include "ops/gate/gate.h"
#include "ops/group_norm/group_norm.h"
#include "ops/image_input/image_input.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/linear/linear.h"
#include "ops/matmul/matmul.h"
#include "ops/max_pool2d/max_pool2d.h"
#include "ops/permute/permute.h"
#include "ops/positions/positions.h"
#include "ops/power_norm/power_norm.h"
#include "ops/reduce/reduce.h"
#include "ops/reindex/reindex.h"
#include "ops/reshape/reshape.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rotary/rotary.h"
#include "ops/scale_norm/scale_norm.h"
#include "ops/softmax/softmax.h"
#include "ops/top_k/top_k.h"
#include "ops/weight_standardize/weight_standardize.h"
#include "ops/weighted_pool/weighted_pool.h"
#include "python/binding/arrays.h"
#include "python/binding/tape.h"

namespace foldgrad::python {
namespace {

using std::tuple;
using Reduced = Var (*)(const Var&);
using Lengths = std::optional<std::vector<std::int64_t>>;

TapeVar joined(const std::vector<TapeVar>& xs, int axis) {
  FOLDGRAD_CHECK(!xs.empty(), "concat: there must be at least one tensor");
  std::vector<Var> vars;
  for (const TapeVar& x : xs) vars.push_back(x.var);
  return record(xs[0], [&] { return concat(vars, axis); });
}

tuple<Tensor, Tensor, Tensor> largest(nb::handle x, std::int64_t k) {
  const TopK result = native([&, of = to_tensor(x)] { return top_k(of, k); });
  return {result.values, result.indices, result.log_sum_exp};
}

// Returns the sequences that the rows of x form. Without lengths, all rows form one sequence.
Segments rows_of(const Var& x, const Lengths& lengths) {
  const std::int64_t rows = x.shape().rank() > 0 ? x.shape()[0] : 0;
  return Segments(lengths.value_or(std::vector<std::int64_t>{rows})).to(x.device());
}

Var attention_of(const Var& q, const Var& k, const Var& v, int heads, bool causal, const Lengths& lengths,
                 const Lengths& key_lengths, double scale, double dropout, std::uint64_t seed, std::uint32_t step,
                 std::uint32_t stream) {
  return attention(q, k, v, {heads, scale, causal, dropout, {seed, stream, step}}, rows_of(q, lengths),
                   rows_of(k, key_lengths ? key_lengths : lengths));
}

Var attention_of_packed(const Var& qkv, const OptionalVar& bias, int heads, bool causal, const Lengths& lengths,
                        double scale, double dropout, std::uint64_t seed, std::uint32_t step, std::uint32_t stream) {
  const AttentionOptions options{heads, scale, causal, dropout, {seed, stream, step}};
  const Segments rows = rows_of(qkv, lengths);
  return bias ? attention_packed(qkv, *bias, options, rows) : attention_packed(qkv, options, rows);
}

Var loss_of(const Var& logits, const Var& targets, const OptionalVar& second_targets, const OptionalVar& share,
            double label_smoothing, std::int64_t ignore_index, const std::string& reduction) {
  FOLDGRAD_CHECK(reduction == "mean" || reduction == "sum", "reduction must be mean or sum, got \"{}\"", reduction);
  FOLDGRAD_CHECK(second_targets.has_value() == share.has_value(),
                 "cross_entropy: second_targets and share must both be given, or neither");
  const CrossEntropyOptions options{label_smoothing, ignore_index,
                                    reduction == "sum" ? Reduction::sum : Reduction::mean};
  return share ? cross_entropy(logits, targets, *second_targets, *share, options)
               : cross_entropy(logits, targets, options);
}

Var convolution(const Var& x, const Var& weight, const OptionalVar& bias, std::int64_t stride, std::int64_t padding,
                const std::optional<std::string>& activation, std::int64_t groups, std::int64_t extra_padding) {
  Conv2dChannelsLastOptions options{
      .stride = stride, .padding = padding, .groups = groups, .extra_padding = extra_padding};
  if (activation) options.activation = activation_named(*activation);
  return bias ? conv2d_channels_last(x, weight, *bias, options) : conv2d_channels_last(x, weight, options);
}

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

void add_norms(nb::module_& m) {
  def_op(m, "layer_norm", tuple{"x"_a, "gamma"_a, "beta"_a, "eps"_a = 1e-5}, &layer_norm);
  def_op(
      m, "rms_norm", tuple{"x"_a, "gamma"_a, "eps"_a = 1e-6, "eps_outside"_a = false, "channels"_a = 0},
      +[](const Var& x, const Var& gamma, double eps, bool eps_outside, std::int64_t channels) {
        return rms_norm(x, gamma, {eps, eps_outside, channels});
      });
  def_op(m, "scale_norm", tuple{"x"_a, "g"_a, "eps"_a = 1e-5}, &scale_norm);
  def_op(m, "unit_rows", tuple{"x"_a, "eps"_a = 1e-12}, &unit_rows);
  def_op(
      m, "group_norm", tuple{"x"_a, "gamma"_a, "beta"_a, "groups"_a, "lengths"_a = nb::none(), "eps"_a = 1e-5},
      +[](const Var& x, const Var& gamma, const Var& beta, std::int64_t groups, const Lengths& lengths, double eps) {
        const Segments samples = rows_of(x, lengths);
        return group_norm(x, gamma, beta, groups, lengths ? &samples : nullptr, eps);
      });
  def_op(m, "center_norm", tuple{"x"_a, "gamma"_a, "beta"_a}, &center_norm);
  def_op(m, "dyt", tuple{"x"_a, "alpha"_a, "gamma"_a, "beta"_a}, &dyt);
  def_op(m, "derf", tuple{"x"_a, "alpha"_a, "shift"_a, "gamma"_a, "beta"_a}, &derf);
  def_op(m, "affine", tuple{"x"_a, "gamma"_a, "beta"_a}, &affine);
  def_op(m, "scale_by", tuple{"x"_a, "eta"_a}, &scale_by);
  def_op(m, "group_rms", tuple{"x"_a, "groups"_a, "eps"_a = 1e-5}, &group_rms);
  def_op(
      m, "weight_standardize", tuple{"w"_a, "g"_a, "minimum"_a = 1e-4, "unbiased"_a = false},
      +[](const Var& w, const Var& g, double minimum, bool unbiased) {
        return weight_standardize(w, g, {minimum, unbiased});
      });
}

void add_images(nb::module_& m) {
  def_op(
      m, "image_input", tuple{"x"_a, "mean"_a, "std"_a, "dtype"_a = DType::f32},
      +[](const Var& x, const std::array<double, 3>& mean, const std::array<double, 3>& std, DType dtype) {
        return image_input(x, {mean, std}, dtype);
      });
  def_op(
      m, "unfold", tuple{"x"_a, "kernel_height"_a, "kernel_width"_a, "stride"_a = 1, "padding"_a = 0},
      +[](const Var& x, std::int64_t height, std::int64_t width, std::int64_t stride, std::int64_t padding) {
        return unfold(x, height, width, {stride, padding});
      });
  def_op(m, "patch_embedding", tuple{"x"_a, "weight"_a, "bias"_a}, &patch_embedding);
  def_op(m, "conv2d_channels_last",
         tuple{"x"_a, "weight"_a, "bias"_a = nb::none(), "stride"_a = 1, "padding"_a = 0, "activation"_a = nb::none(),
               "groups"_a = 1, "extra_padding"_a = 0},
         &convolution);
  def_op(
      m, "max_pool2d", tuple{"x"_a, "kernel"_a = 2, "stride"_a = 2, "padding"_a = 0},
      +[](const Var& x, std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
        return max_pool2d(x, {kernel, stride, padding});
      });
}

}  // namespace

void add_ops(nb::module_& m) {
  add_products(m);
  add_activations(m);
  def_op(m, "softmax", tuple{"x"_a}, &softmax);
  def_op(m, "divide_rows", tuple{"n"_a, "d"_a, "eps"_a}, &divide_rows);
  add_dropout(m);
  add_shapes(m);
  add_norms(m);
  m.def(
      "sinusoidal_table",
      [](std::int64_t rows, std::int64_t columns, DType dtype) { return sinusoidal_table(rows, columns, dtype); },
      "rows"_a, "columns"_a, "dtype"_a = DType::f32, Native(), doc("sinusoidal_table"));
  m.def(
      "sinusoidal_positions",
      [](const TapeVar& x, nb::handle table, const Lengths& lengths) {
        return record(x, [&, rows = to_tensor(table)] {
          return sinusoidal_positions(x.var, rows_of(x.var, lengths).places(), rows.to(x.var.device()));
        });
      },
      "x"_a, "table"_a, "lengths"_a = nb::none(), doc("sinusoidal_positions"));
  def_op(
      m, "rotary", tuple{"x"_a, "places"_a, "width"_a, "columns"_a, "theta"_a = 10000.0},
      +[](const Var& x, const std::vector<std::int64_t>& places, std::int64_t width, std::int64_t columns,
          double theta) {
        const std::int64_t length = places.empty() ? 0 : 1 + *std::max_element(places.begin(), places.end());
        const RotaryTable table(length, width, theta, x.dtype(), x.device());
        return rotary(x, Tensor::of({std::int64_t(places.size())}, places, x.device()), table, columns);
      });
  def_op(m, "learned_positions", tuple{"x"_a, "table"_a}, &learned_positions);
  def_op(m, "cross_entropy",
         tuple{"logits"_a, "targets"_a, "second_targets"_a = nb::none(), "share"_a = nb::none(), nb::kw_only(),
               "label_smoothing"_a = 0.0, "ignore_index"_a = -100, "reduction"_a = "mean"},
         &loss_of);
  def_op(m, "attention",
         tuple{"q"_a, "k"_a, "v"_a, nb::kw_only(), "heads"_a, "causal"_a = false, "lengths"_a = nb::none(),
               "key_lengths"_a = nb::none(), "scale"_a = 0.0, "dropout"_a = 0.0, "seed"_a = 0, "step"_a = 0,
               "stream"_a = 0},
         &attention_of);
  def_op(m, "attention_packed",
         tuple{"qkv"_a, "bias"_a = nb::none(), nb::kw_only(), "heads"_a, "causal"_a = false, "lengths"_a = nb::none(),
               "scale"_a = 0.0, "dropout"_a = 0.0, "seed"_a = 0, "step"_a = 0, "stream"_a = 0},
         &attention_of_packed);
  add_images(m);
}

}  // namespace foldgrad::python
