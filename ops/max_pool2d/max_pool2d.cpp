#include "ops/max_pool2d/max_pool2d.h"

#include "engine/graph/description.h"
#include "engine/graph/onnx_graph.h"
#include "engine/node_grads.h"
#include "ops/max_pool2d/max_pool2d_kernels.h"

namespace foldgrad {
namespace {

constexpr std::int64_t kLargestKernel = 15;    // a position in a 15 x 15 kernel fits in u8
constexpr std::int64_t kMostPixels = 1 << 29;  // per image, so that coordinates with padding fit in an int

struct MaxPool2dNode {
  Tensor from;
  MaxPool2dSizes s;

  const char* name() const { return "max_pool2d"; }

  // Differentiates max_pool2d [POOL-1]: computes dx [POOL-2].
  void backward(NodeGrads& grads) {
    dispatch_floating(name(), grads.dy().dtype(), [&]<class T>(Type<T>) {
      const MaxPool2dBackward<T> p{
          .dx = grads.out<T>(0), .dy = grads.dy().data<T>(), .from = from.data<std::uint8_t>(), .s = s};
      FOLDGRAD_RUN(from.device(), max_pool2d, p);
    });
  }

  void describe(Description& d) const {
    d.onnx = [this](OnnxGraph& g, const OnnxOperands& in) {  // ONNX images are [batch, channels, height, width]
      const std::string y = g.node("MaxPool", {g.transpose(in[0], {0, 3, 1, 2})},
                                   {{"kernel_shape", OnnxGraph::Sizes(2, s.kernel)},
                                    {"strides", OnnxGraph::Sizes(2, s.stride)},
                                    {"pads", OnnxGraph::Sizes(4, s.padding)}});
      return g.transpose(y, {0, 2, 3, 1});
    };
  }
};

MaxPool2dSizes check(const Tensor& x, const MaxPool2dOptions& o) {
  check_floating("max_pool2d", "x", x, 4);
  FOLDGRAD_CHECK(x.shape().rank() == 4, "max_pool2d: x must be [B, H, W, C], got {}", x.shape());
  FOLDGRAD_CHECK(1 <= o.kernel && o.kernel <= kLargestKernel, "max_pool2d: kernel must be in [1, {}], got {}",
                 kLargestKernel, o.kernel);
  FOLDGRAD_CHECK(o.stride > 0, "max_pool2d: stride must be positive, got {}", o.stride);
  FOLDGRAD_CHECK(0 <= o.padding && o.padding <= o.kernel / 2,
                 "max_pool2d: padding must be in [0, {}], half the kernel size, got {}", o.kernel / 2, o.padding);
  const std::int64_t height = x.shape()[1], width = x.shape()[2];
  FOLDGRAD_CHECK(height > 0 && width > 0, "max_pool2d: x must have at least one pixel, got {}", x.shape());
  FOLDGRAD_CHECK(height <= kMostPixels / width, "max_pool2d: an image of x must have at most {} pixels, got {}",
                 kMostPixels, x.shape());
  FOLDGRAD_CHECK(o.kernel <= height + 2 * o.padding && o.kernel <= width + 2 * o.padding,
                 "max_pool2d: the kernel must lie within the image {} x {} with padding {} on each side, got {} x {}",
                 height, width, o.padding, o.kernel, o.kernel);
  const int kernel = int(o.kernel), stride = int(std::min(o.stride, kMostPixels)), padding = int(o.padding);
  return {.batch = x.shape()[0],
          .channels = x.shape()[3],
          .height = int(height),
          .width = int(width),
          .out_height = (int(height) + 2 * padding - kernel) / stride + 1,
          .out_width = (int(width) + 2 * padding - kernel) / stride + 1,
          .kernel = kernel,
          .stride = stride,
          .padding = padding};
}

}  // namespace

Var max_pool2d(const Var& xv, const MaxPool2dOptions& options) {
  const Tensor& x = xv.value();
  const MaxPool2dSizes s = check(x, options);
  const Shape shape{s.batch, s.out_height, s.out_width, s.channels};
  const Tensor y = Tensor::empty(shape, x.dtype(), x.device()), from = Tensor::empty(shape, DType::u8, x.device());
  dispatch_floating("max_pool2d", x.dtype(), [&]<class T>(Type<T>) {
    const MaxPool2dForward<T> p{.y = y.data<T>(), .from = from.data<std::uint8_t>(), .x = x.data<T>(), .s = s};
    FOLDGRAD_RUN(x.device(), max_pool2d, p);
  });
  return xv.tape().record(y, {xv}, MaxPool2dNode{.from = from, .s = s});
}

}  // namespace foldgrad
