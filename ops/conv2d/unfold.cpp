#include "engine/graph/graph.h"
#include "ops/conv2d/conv2d_checks.h"
#include "ops/linear/linear.h"
#include "ops/reshape/reshape.h"

namespace foldgrad {
namespace {

struct UnfoldNode {
  Conv2dSizes s;

  const char* name() const { return "unfold"; }

  void backward(NodeGrads& grads) {
    dispatch_floating(name(), grads.dy().dtype(), [&]<class T>(Type<T>) {
      const UnfoldBackward<T> p{.dx = grads.out<T>(0), .du = grads.dy().data<T>(), .s = s};
      FOLDGRAD_RUN(grads.dy().device(), unfold, p);
    });
  }

  // Row k of the result holds channels x height x width of a patch.
  std::string passes(const Graph&, const GraphUse&, ChannelMap& map) const {
    if (s.padding != 0 && map.map.adds()) return "unfold pads with zeros, where the map would give B";
    if (map.place.axis != 3) return "unfold cuts patches out of the channels";
    const std::int64_t patch = s.kernel_height * s.kernel_width;
    map.place = {2, map.place.offset * patch, map.place.repeat * patch};
    return "";
  }
};

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
  check_conv2d_weight("patch_embedding", x.value(), weight.value(), &bias.value());
  const std::int64_t out = weight.shape()[0], patch = weight.shape()[2];
  FOLDGRAD_CHECK(weight.shape()[3] == patch && patch > 0 && x.shape()[1] % patch == 0 && x.shape()[2] % patch == 0,
                 "patch_embedding: weight must be [O, C, P, P] with a P that divides the image {} x {}, got {}",
                 x.shape()[1], x.shape()[2], weight.shape());
  conv2d_sizes("patch_embedding", x.value(), patch, patch, {.stride = patch});
  const Var places = unfold(x, patch, patch, {.stride = patch});
  const Var matrix = reshape(weight, {out, places.shape()[2]});
  return linear(places, matrix, bias);  // [CONV-2]
}

}  // namespace foldgrad
