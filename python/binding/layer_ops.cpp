// Operations of normalizers, attention, losses and images.
#include <nanobind/stl/array.h>

#include "ops/affine/affine.h"
#include "ops/attention/attention.h"
#include "ops/center_norm/center_norm.h"
#include "ops/conv2d/conv2d.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/dyt/dyt.h"
#include "ops/group_norm/group_norm.h"
#include "ops/image_input/image_input.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/max_pool2d/max_pool2d.h"
#include "ops/positions/positions.h"
#include "ops/power_norm/power_norm.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/scale_norm/scale_norm.h"
#include "ops/weight_standardize/weight_standardize.h"
#include "python/binding/arrays.h"
#include "python/binding/tape.h"

namespace foldgrad::python {
namespace {

using OptionalVar = std::optional<TapeVar>;
using Lengths = std::optional<std::vector<std::int64_t>>;

// Returns the sequences of x's rows; without lengths all rows are one sequence.
Segments rows_of(const TapeVar& x, const Lengths& lengths) {
  const std::int64_t rows = x.var.shape().rank() > 0 ? x.var.shape()[0] : 0;
  return Segments(lengths.value_or(std::vector<std::int64_t>{rows})).to(x.var.device());
}

AttentionOptions attention_options(int heads, bool causal, double scale, double dropout, std::uint64_t seed,
                                   std::uint32_t step, std::uint32_t stream) {
  return {.heads = heads, .scale = scale, .causal = causal, .dropout = dropout, .random = {seed, stream, step}};
}

void add_attention(nb::module_& m) {
  m.def(
      "attention",
      [](const TapeVar& q, const TapeVar& k, const TapeVar& v, int heads, bool causal, const Lengths& lengths,
         const Lengths& key_lengths, double scale, double dropout, std::uint64_t seed, std::uint32_t step,
         std::uint32_t stream) {
        const AttentionOptions options = attention_options(heads, causal, scale, dropout, seed, step, stream);
        return record(q, [&] {
          return attention(q.var, k.var, v.var, options, rows_of(q, lengths),
                           rows_of(k, key_lengths ? key_lengths : lengths));
        });
      },
      "q"_a, "k"_a, "v"_a, nb::kw_only(), "heads"_a, "causal"_a = false, "lengths"_a = nb::none(),
      "key_lengths"_a = nb::none(), "scale"_a = 0.0, "dropout"_a = 0.0, "seed"_a = 0, "step"_a = 0, "stream"_a = 0,
      doc("attention"));
  m.def(
      "attention_packed",
      [](const TapeVar& qkv, const OptionalVar& bias, int heads, bool causal, const Lengths& lengths, double scale,
         double dropout, std::uint64_t seed, std::uint32_t step, std::uint32_t stream) {
        const AttentionOptions options = attention_options(heads, causal, scale, dropout, seed, step, stream);
        return record(qkv, [&] {
          const Segments rows = rows_of(qkv, lengths);
          return bias ? attention_packed(qkv.var, bias->var, options, rows) : attention_packed(qkv.var, options, rows);
        });
      },
      "qkv"_a, "bias"_a = nb::none(), nb::kw_only(), "heads"_a, "causal"_a = false, "lengths"_a = nb::none(),
      "scale"_a = 0.0, "dropout"_a = 0.0, "seed"_a = 0, "step"_a = 0, "stream"_a = 0, doc("attention_packed"));
}

TapeVar loss_of(const TapeVar& logits, const TapeVar& targets, const OptionalVar& second_targets,
                const OptionalVar& share, double label_smoothing, std::int64_t ignore_index,
                const std::string& reduction) {
  if (reduction != "mean" && reduction != "sum")
    throw nb::value_error(fmt::format("reduction must be mean or sum, got \"{}\"", reduction).c_str());
  if (second_targets.has_value() != share.has_value())
    throw nb::value_error("cross_entropy: second_targets and share must both be given, or neither");
  const CrossEntropyOptions options{label_smoothing, ignore_index,
                                    reduction == "sum" ? Reduction::sum : Reduction::mean};
  return record(logits, [&] {
    return share ? cross_entropy(logits.var, targets.var, second_targets->var, share->var, options)
                 : cross_entropy(logits.var, targets.var, options);
  });
}

void add_images(nb::module_& m) {
  m.def(
      "image_input",
      [](const TapeVar& x, const std::array<double, 3>& mean, const std::array<double, 3>& std,
         const std::string& dtype) {
        const DType to = dtype_named(dtype);
        return record(x, [&] { return image_input(x.var, {mean, std}, to); });
      },
      "x"_a, "mean"_a, "std"_a, "dtype"_a = "f32", doc("image_input"));
  m.def(
      "unfold",
      [](const TapeVar& x, std::int64_t kernel_height, std::int64_t kernel_width, std::int64_t stride,
         std::int64_t padding) {
        return record(x, [&] { return unfold(x.var, kernel_height, kernel_width, {stride, padding}); });
      },
      "x"_a, "kernel_height"_a, "kernel_width"_a, "stride"_a = 1, "padding"_a = 0, doc("unfold"));
  m.def("patch_embedding", op(&patch_embedding), "x"_a, "weight"_a, "bias"_a, doc("patch_embedding"));
  m.def(
      "conv2d_channels_last",
      [](const TapeVar& x, const TapeVar& weight, const OptionalVar& bias, std::int64_t stride, std::int64_t padding,
         const std::optional<std::string>& activation, std::int64_t groups, std::int64_t extra_padding) {
        Conv2dChannelsLastOptions options{
            .stride = stride, .padding = padding, .groups = groups, .extra_padding = extra_padding};
        if (activation) options.activation = activation_named(*activation);
        return record(x, [&] {
          return bias ? conv2d_channels_last(x.var, weight.var, bias->var, options)
                      : conv2d_channels_last(x.var, weight.var, options);
        });
      },
      "x"_a, "weight"_a, "bias"_a = nb::none(), "stride"_a = 1, "padding"_a = 0, "activation"_a = nb::none(),
      "groups"_a = 1, "extra_padding"_a = 0, doc("conv2d_channels_last"));
  m.def(
      "max_pool2d",
      [](const TapeVar& x, std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
        return record(x, [&] { return max_pool2d(x.var, {kernel, stride, padding}); });
      },
      "x"_a, "kernel"_a = 2, "stride"_a = 2, "padding"_a = 0, doc("max_pool2d"));
}

}  // namespace

void add_layer_ops(nb::module_& m) {
  m.def("layer_norm", op(&layer_norm), "x"_a, "gamma"_a, "beta"_a, "eps"_a = 1e-5, doc("layer_norm"));
  m.def(
      "rms_norm",
      [](const TapeVar& x, const TapeVar& gamma, double eps, bool eps_outside, std::int64_t channels) {
        return record(x, [&] { return rms_norm(x.var, gamma.var, {eps, eps_outside, channels}); });
      },
      "x"_a, "gamma"_a, "eps"_a = 1e-6, "eps_outside"_a = false, "channels"_a = 0, doc("rms_norm"));
  m.def("scale_norm", op(&scale_norm), "x"_a, "g"_a, "eps"_a = 1e-5, doc("scale_norm"));
  m.def("unit_rows", op(&unit_rows), "x"_a, "eps"_a = 1e-12, doc("unit_rows"));
  m.def(
      "group_norm",
      [](const TapeVar& x, const TapeVar& gamma, const TapeVar& beta, std::int64_t groups, const Lengths& lengths,
         double eps) {
        return record(x, [&] {
          const Segments samples = rows_of(x, lengths);
          return group_norm(x.var, gamma.var, beta.var, groups, lengths ? &samples : nullptr, eps);
        });
      },
      "x"_a, "gamma"_a, "beta"_a, "groups"_a, "lengths"_a = nb::none(), "eps"_a = 1e-5, doc("group_norm"));
  m.def("center_norm", op(&center_norm), "x"_a, "gamma"_a, "beta"_a, doc("center_norm"));
  m.def("dyt", op(&dyt), "x"_a, "alpha"_a, "gamma"_a, "beta"_a, doc("dyt"));
  m.def("derf", op(&derf), "x"_a, "alpha"_a, "shift"_a, "gamma"_a, "beta"_a, doc("derf"));
  m.def("affine", op(&affine), "x"_a, "gamma"_a, "beta"_a, doc("affine"));
  m.def("scale_by", op(&scale_by), "x"_a, "eta"_a, doc("scale_by"));
  m.def("group_rms", op(&group_rms), "x"_a, "groups"_a, "eps"_a = 1e-5, doc("group_rms"));
  m.def(
      "weight_standardize",
      [](const TapeVar& w, const TapeVar& g, double minimum, bool unbiased) {
        return record(w, [&] { return weight_standardize(w.var, g.var, {minimum, unbiased}); });
      },
      "w"_a, "g"_a, "minimum"_a = 1e-4, "unbiased"_a = false, doc("weight_standardize"));
  m.def(
      "sinusoidal_table",
      [](std::int64_t rows, std::int64_t columns, const std::string& dtype) {
        const DType of = dtype_named(dtype);
        return native([&] { return sinusoidal_table(rows, columns, of); });
      },
      "rows"_a, "columns"_a, "dtype"_a = "f32", doc("sinusoidal_table"));
  m.def(
      "sinusoidal_positions",
      [](const TapeVar& x, nb::handle table, const Lengths& lengths) {
        const Tensor rows = to_tensor(table);
        return record(
            x, [&] { return sinusoidal_positions(x.var, rows_of(x, lengths).places(), rows.to(x.var.device())); });
      },
      "x"_a, "table"_a, "lengths"_a = nb::none(), doc("sinusoidal_positions"));
  m.def("learned_positions", op(&learned_positions), "x"_a, "table"_a, doc("learned_positions"));
  m.def("cross_entropy", loss_of, "logits"_a, "targets"_a, "second_targets"_a = nb::none(), "share"_a = nb::none(),
        nb::kw_only(), "label_smoothing"_a = 0.0, "ignore_index"_a = -100, "reduction"_a = "mean",
        doc("cross_entropy"));
  add_attention(m);
  add_images(m);
}

}  // namespace foldgrad::python
