#include "engine/cpu/column_sums.h"
#include "engine/graph/description.h"
#include "engine/graph/onnx_graph.h"
#include "ops/activation/activation_passes.h"
#include "ops/conv2d/conv2d_checks.h"
#include "ops/conv2d/conv2d_products.h"
#include "ops/total/total.h"

namespace foldgrad {
namespace {

constexpr const char* kName = "conv2d_channels_last";

struct Conv2dChannelsLastNode {
  Conv2dSizes s;
  std::optional<Activation> activation;
  bool has_bias;
  Tensor x, weight;
  Tensor saved, bias;  // for the activation: y, or z without the bias and the bias itself

  const char* name() const { return kName; }

  void backward(NodeGrads& grads) {
    const Tensor dz = through_activation(grads);
    if (grads.wanted(0)) product(Conv2dPass::dx, grads.place(0), dz);
    if (grads.wanted(1)) product(Conv2dPass::dweight, grads.exact_place(1), dz);
  }

  void describe(Description& d) const {
    d.weight = 1;
    if (has_bias) d.bias = 2;
    d.pads = s.padding != 0;
    d.activates = activation.has_value();
  }
  std::string onnx(OnnxGraph& g, const OnnxOperands& in) const {  // whose images are [batch, channels, height, width]
    std::vector<std::string> operands{g.transpose(in[0], {0, 3, 1, 2}), in[1]};
    if (has_bias) operands.push_back(in[2]);
    const std::string y = g.node("Conv", operands,
                                 {{"kernel_shape", OnnxGraph::Sizes{s.kernel_height, s.kernel_width}},
                                  {"strides", OnnxGraph::Sizes{s.stride, s.stride}},
                                  {"pads", OnnxGraph::Sizes(4, s.padding)}});
    return g.transpose(activation ? foldgrad::onnx(g, *activation, y) : y, {0, 2, 3, 1});
  }

 private:
  // dz, undefined where neither dx nor dweight is wanted; and dbias, from the same pass over dy.
  Tensor through_activation(NodeGrads& grads) const {
    const Tensor& dy = grads.dy();
    const bool products = grads.wanted(0) || grads.wanted(1);
    const Tensor dz = activation && products ? Tensor::empty(dy.shape(), dy.dtype(), dy.device()) : Tensor();
    dispatch_floating(kName, dy.dtype(), [&]<class T>(Type<T>) {
      const GradOut<T> to_dz = dz.defined() ? GradOut<T>{dz.data<T>()} : GradOut<T>{};
      const ParameterGradOut<T> dbias = has_bias ? grads.exact_out<T>(2) : ParameterGradOut<T>{};
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

  // Libraries set; what is there already is added afterwards.
  void product(Conv2dPass pass, const std::pair<Tensor, GradMode>& place, const Tensor& dz) const {
    const auto& [grad, mode] = place;
    const Tensor to = mode == GradMode::set ? grad : Tensor::empty(grad.shape(), grad.dtype(), grad.device());
    const bool image = pass == Conv2dPass::dx;
    conv2d_product(
        dz.device(),
        {.pass = pass, .dtype = dz.dtype(), .s = s, .out = weight.shape()[0], .f32_dweight = to.dtype() != dz.dtype()},
        {.x = (image ? to : x).raw(), .weight = (image ? weight : to).raw(), .y = dz.raw()});
    if (mode == GradMode::add) accumulate(grad, to);
  }
};

Var convolve(const Var& xv, const Var& weightv, const Var* biasv, const Conv2dChannelsLastOptions& o) {
  const Tensor &x = xv.value(), &weight = weightv.value();
  const Tensor* bias = biasv ? &biasv->value() : nullptr;
  check_conv2d_weight(kName, x, weight, bias);
  const Shape& w = weight.shape();
  const Conv2dSizes s = conv2d_sizes(kName, x, w[2], w[3], {o.stride, o.padding});

  const Tensor z = Tensor::empty({s.batch, s.out_height, s.out_width, w[0]}, x.dtype(), x.device());
  const bool activates = o.activation.has_value(), keeps_z = activates && !from_output(*o.activation);
  conv2d_product(
      x.device(), {.pass = Conv2dPass::y, .dtype = x.dtype(), .s = s, .out = w[0]},
      {.x = x.raw(), .weight = weight.raw(), .y = z.raw(), .bias = bias && !activates ? bias->raw() : nullptr});
  const Tensor y = keeps_z ? Tensor::empty(z.shape(), z.dtype(), z.device()) : z;
  if (activates) activation_forward(kName, *o.activation, y, z, bias ? *bias : Tensor());

  std::vector<Var> operands{xv, weightv};
  if (biasv) operands.push_back(*biasv);
  return xv.tape().record(y, operands,
                          Conv2dChannelsLastNode{.s = s,
                                                 .activation = o.activation,
                                                 .has_bias = bias != nullptr,
                                                 .x = x,
                                                 .weight = weight,
                                                 .saved = activates ? z : Tensor(),
                                                 .bias = keeps_z && bias ? *bias : Tensor()});
}

}  // namespace

Var conv2d_channels_last(const Var& x, const Var& weight, const Conv2dChannelsLastOptions& options) {
  return convolve(x, weight, nullptr, options);
}
Var conv2d_channels_last(const Var& x, const Var& weight, const Var& bias, const Conv2dChannelsLastOptions& options) {
  return convolve(x, weight, &bias, options);
}

}  // namespace foldgrad
