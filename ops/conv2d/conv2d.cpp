#include "ops/conv2d/conv2d.h"

#include <fmt/format.h>

#include "engine/cpu/column_sums.h"
#include "engine/graph/graph.h"
#include "engine/graph/onnx_graph.h"
#include "engine/node_grads.h"
#include "ops/activation/activation_passes.h"
#include "ops/conv2d/conv2d_products.h"
#include "ops/linear/linear.h"
#include "ops/reshape/reshape.h"
#include "ops/total/total.h"

namespace foldgrad {

Conv2dSizes conv2d_sizes(const char* op, const Tensor& x, std::int64_t kernel_height, std::int64_t kernel_width,
                         const Conv2dOptions& options, std::int64_t extra_padding) {
  const std::int64_t stride = options.stride, padding = options.padding, end_padding = padding + extra_padding;
  check_floating(op, "x", x, 4);
  FOLDGRAD_CHECK(x.shape().rank() == 4, "{}: x must be [B, H, W, C], got {}", op, x.shape());
  FOLDGRAD_CHECK(stride > 0 && padding >= 0,
                 "{}: stride must be positive and padding not negative, got stride {}, padding {}", op, stride,
                 padding);
  FOLDGRAD_CHECK(extra_padding >= 0, "{}: extra_padding must not be negative, got {}", op, extra_padding);
  const std::int64_t height = x.shape()[1], width = x.shape()[2];
  FOLDGRAD_CHECK(0 < kernel_height && kernel_height <= height + padding + end_padding && 0 < kernel_width &&
                     kernel_width <= width + padding + end_padding,
                 "{}: the kernel must lie within the image {} x {} with padding {} on each side, got {} x {}", op,
                 height, width, padding, kernel_height, kernel_width);
  return {.batch = x.shape()[0],
          .channels = x.shape()[3],
          .height = height,
          .width = width,
          .kernel_height = kernel_height,
          .kernel_width = kernel_width,
          .out_height = (height + padding + end_padding - kernel_height) / stride + 1,
          .out_width = (width + padding + end_padding - kernel_width) / stride + 1,
          .stride = stride,
          .padding = padding,
          .end_padding = end_padding};
}

namespace {

void check_weight(const char* op, const Tensor& x, const Tensor& weight, const Tensor* bias, std::int64_t groups = 1) {
  check_floating(op, "x", x, 4);
  check_floating(op, "weight", weight, 4);
  const Shape& w = weight.shape();
  const std::int64_t C = x.shape()[-1];
  FOLDGRAD_CHECK(groups > 0 && C % groups == 0 && w[0] % groups == 0,
                 "{}: groups must be positive and divide the channels of x and of the result, {} and {}, got {}", op, C,
                 w[0], groups);
  check_operand(op, "weight", weight, {w[0], C / groups, w[2], w[3]}, x, "x");
  if (bias) check_operand(op, "bias", *bias, {w[0]}, x, "x");
}

struct UnfoldNode {
  Conv2dSizes s;

  const char* name() const { return "unfold"; }

  // Differentiates unfold [CONV-1]: computes dx [CONV-3].
  void backward(NodeGrads& grads) {
    dispatch_floating(name(), grads.dy().dtype(), [&]<class T>(Type<T>) {
      const UnfoldBackward<T> p{.dx = grads.out<T>(0), .du = grads.dy().data<T>(), .s = s};
      FOLDGRAD_RUN(grads.dy().device(), unfold, p);
    });
  }
  void describe(Description& d) const {
    // The pending map moves from axis 3 of x to axis 2 of the result. A row of the result is a patch [channels,
    // kernel_height, kernel_width], so each channel takes kernel_height * kernel_width adjacent entries.
    d.passes = [this](const Graph&, const GraphUse&, ChannelMap& map) -> std::string {
      if (s.padding != 0 && map.map.adds())
        return "unfold pads with zeros, but folding would pad with the map's bias B";
      if (map.place.axis != 3) return "unfold cuts the channel axis into patches";
      const std::int64_t patch = s.kernel_height * s.kernel_width;
      map.place = {2, map.place.offset * patch, map.place.repeat * patch};
      return "";
    };
    // Exports one convolution per channel. Output channel k has the weight 1 at value k of the patch, and 0 elsewhere.
    d.onnx = [this](OnnxGraph& g, const OnnxOperands& in) {
      const std::int64_t K = s.kernel_height * s.kernel_width;
      const Tensor ones = Tensor::zeros({s.values(), 1, s.kernel_height, s.kernel_width}, DType::f32);
      for (std::int64_t k = 0; k < s.values(); ++k) ones.data<float>()[k * K + k % K] = 1;
      const std::string name = fmt::format("unfold.{}x{}x{}", s.channels, s.kernel_height, s.kernel_width);
      const std::string u = g.node("Conv", {g.transpose(in[0], {0, 3, 1, 2}), g.initializer(name, ones)},
                                   {{"kernel_shape", OnnxGraph::Sizes{s.kernel_height, s.kernel_width}},
                                    {"strides", OnnxGraph::Sizes{s.stride, s.stride}},
                                    {"pads", OnnxGraph::Sizes{s.padding, s.padding, s.end_padding, s.end_padding}},
                                    {"group", s.channels}});
      return g.reshape(g.transpose(u, {0, 2, 3, 1}), {s.places(), s.values()});
    };
  }
};

constexpr const char* kName = "conv2d_channels_last";

struct Conv2dChannelsLastNode {
  Conv2dSizes s;
  std::optional<Activation> activation;
  bool has_bias;
  std::int64_t groups;
  Tensor x, weight;
  Tensor saved, bias;  // for the activation's derivative; `saved` is y, or z without the bias

  const char* name() const { return kName; }

  // Differentiates conv2d_channels_last [CONV-4]: computes dx [CONV-5], dweight [CONV-6] and dbias [CONV-7].
  void backward(NodeGrads& grads) {
    const Tensor dz = through_activation(grads);
    if (grads.wanted(0)) product(Conv2dPass::dx, grads.place(0, dz.dtype()), dz);
    if (grads.wanted(1)) product(Conv2dPass::dweight, grads.place(1, grads.sum_dtype(1)), dz);
  }

  void describe(Description& d) const {
    d.weight = d.recorded = 1;
    if (has_bias) d.bias = 2;
    d.pads = s.end_padding != 0;
    d.activates = activation.has_value();
    d.onnx = [this](OnnxGraph& g, const OnnxOperands& in) {  // ONNX images are [batch, channels, height, width]
      std::vector<std::string> operands{g.transpose(in[0], {0, 3, 1, 2}), in.recorded(1, weight)};
      if (has_bias) operands.push_back(in[2]);
      const std::string y = g.node("Conv", operands,
                                   {{"kernel_shape", OnnxGraph::Sizes{s.kernel_height, s.kernel_width}},
                                    {"strides", OnnxGraph::Sizes{s.stride, s.stride}},
                                    {"pads", OnnxGraph::Sizes{s.padding, s.padding, s.end_padding, s.end_padding}},
                                    {"group", groups}});
      return g.transpose(activation ? foldgrad::onnx(g, *activation, y) : y, {0, 2, 3, 1});
    };
  }

 private:
  // Returns dz, or dy if there is no activation. dz is undefined if neither dx nor dweight needs it. Also puts dbias.
  Tensor through_activation(NodeGrads& grads) const {
    const Tensor& dy = grads.dy();
    const bool products = grads.wanted(0) || grads.wanted(1);
    const Tensor dz = activation && products ? Tensor::empty(dy.shape(), dy.dtype(), dy.device()) : Tensor();
    dispatch_floating(kName, dy.dtype(), [&]<class T>(Type<T>) {
      const GradOut<T> to_dz{data_or_null<T>(dz)};
      const ParameterGradOut<T> dbias = has_bias ? grads.out<compute_t<T>>(2) : ParameterGradOut<T>{};
      if (activation) {
        activation_backward<T>(*activation, has_bias,
                               {.dx = to_dz, .dbias = dbias, .dy = dy, .saved = saved, .bias = bias});  // [CONV-7]
      } else if (dbias) {
        const ColumnTotals<T> p{
            .out = dbias, .values = dy.data<T>(), .rows = dy.shape().without(-1).elements(), .columns = dy.shape()[-1]};
        FOLDGRAD_RUN(dy.device(), column_sums, p);
      }
    });
    return activation ? dz : dy;
  }

  // Computes a gradient as a product, which can only overwrite; adding to an earlier gradient takes a second step.
  void product(Conv2dPass pass, const std::pair<Tensor, GradMode>& place, const Tensor& dz) const {
    const auto& [grad, mode] = place;
    const Tensor to = mode == GradMode::set ? grad : Tensor::empty(grad.shape(), grad.dtype(), grad.device());
    const bool image = pass == Conv2dPass::dx;
    conv2d_product(dz.device(),
                   {.pass = pass,
                    .dtype = dz.dtype(),
                    .s = s,
                    .out = weight.shape()[0],
                    .f32_dweight = to.dtype() != dz.dtype(),
                    .groups = groups},
                   {.x = (image ? to : x).raw(), .weight = (image ? weight : to).raw(), .y = dz.raw()});
    if (mode == GradMode::add) accumulate(grad, to);
  }
};

Var convolve(const Var& xv, const Var& weightv, const Var* biasv, const Conv2dChannelsLastOptions& o) {
  const Tensor &x = xv.value(), &weight = weightv.value();
  const Tensor* bias = biasv ? &biasv->value() : nullptr;
  check_weight(kName, x, weight, bias, o.groups);
  const Shape& w = weight.shape();
  const Conv2dSizes s = conv2d_sizes(kName, x, w[2], w[3], {o.stride, o.padding}, o.extra_padding);

  const Tensor z = Tensor::empty({s.batch, s.out_height, s.out_width, w[0]}, x.dtype(), x.device());
  const bool activates = o.activation.has_value(), keeps_z = activates && !from_output(*o.activation);
  conv2d_product(
      x.device(), {.pass = Conv2dPass::y, .dtype = x.dtype(), .s = s, .out = w[0], .groups = o.groups},
      {.x = x.raw(), .weight = weight.raw(), .y = z.raw(), .bias = bias && !activates ? bias->raw() : nullptr});
  // Overwrites z with y if z is not needed later, but not on CUDA, where kernels load z with read-only instructions.
  const bool over_z = !activates || (!keeps_z && x.device() == Device::cpu);
  const Tensor y = over_z ? z : Tensor::empty(z.shape(), z.dtype(), z.device());
  if (activates) activation_forward(kName, *o.activation, y, z, bias ? *bias : Tensor());

  const Tensor& saved = keeps_z ? z : y;
  std::vector<Var> operands{xv, weightv};
  if (biasv) operands.push_back(*biasv);
  return xv.tape().record(y, operands,
                          Conv2dChannelsLastNode{.s = s,
                                                 .activation = o.activation,
                                                 .has_bias = bias != nullptr,
                                                 .groups = o.groups,
                                                 .x = x,
                                                 .weight = weight,
                                                 .saved = activates ? saved : Tensor(),
                                                 .bias = keeps_z && bias ? *bias : Tensor()});
}

}  // namespace

Var unfold(const Var& xv, std::int64_t kernel_height, std::int64_t kernel_width, const Conv2dOptions& options) {
  const Tensor& x = xv.value();
  const Conv2dSizes s = conv2d_sizes("unfold", x, kernel_height, kernel_width, options);
  const Tensor u = Tensor::empty({s.batch, s.places(), s.values()}, x.dtype(), x.device());
  dispatch_floating("unfold", x.dtype(), [&]<class T>(Type<T>) {
    const UnfoldForward<T> p{.u = u.data<T>(), .x = x.data<T>(), .s = s};
    FOLDGRAD_RUN(x.device(), unfold, p);
  });
  return xv.tape().record(u, {xv}, UnfoldNode{.s = s});
}

Var patch_embedding(const Var& x, const Var& weight, const Var& bias) {
  check_weight("patch_embedding", x.value(), weight.value(), &bias.value());
  const std::int64_t out = weight.shape()[0], patch = weight.shape()[2];
  FOLDGRAD_CHECK(weight.shape()[3] == patch && patch > 0 && x.shape()[1] % patch == 0 && x.shape()[2] % patch == 0,
                 "patch_embedding: weight must be [O, C, P, P] with a P that divides the image {} x {}, got {}",
                 x.shape()[1], x.shape()[2], weight.shape());
  conv2d_sizes("patch_embedding", x.value(), patch, patch, {.stride = patch});
  const Var places = unfold(x, patch, patch, {.stride = patch});
  const Var matrix = reshape(weight, {out, places.shape()[2]});
  return linear(places, matrix, bias);  // [CONV-2]
}

Var conv2d_channels_last(const Var& x, const Var& weight, const Conv2dChannelsLastOptions& options) {
  return convolve(x, weight, nullptr, options);
}
Var conv2d_channels_last(const Var& x, const Var& weight, const Var& bias, const Conv2dChannelsLastOptions& options) {
  return convolve(x, weight, &bias, options);
}

}  // namespace foldgrad
