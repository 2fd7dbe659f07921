#include "ops/conv2d/conv2d_checks.h"

namespace foldgrad {

Conv2dSizes conv2d_sizes(const char* op, const Tensor& x, std::int64_t kernel_height, std::int64_t kernel_width,
                         const Conv2dOptions& options) {
  const std::int64_t stride = options.stride, padding = options.padding;
  check_floating(op, "x", x, 4);
  FOLDGRAD_CHECK(x.shape().rank() == 4, "{}: x must be [B, H, W, C], got {}", op, x.shape());
  FOLDGRAD_CHECK(stride > 0 && padding >= 0,
                 "{}: stride must be positive and padding not negative, got stride {}, padding {}", op, stride,
                 padding);
  const std::int64_t height = x.shape()[1], width = x.shape()[2];
  FOLDGRAD_CHECK(0 < kernel_height && kernel_height <= height + 2 * padding && 0 < kernel_width &&
                     kernel_width <= width + 2 * padding,
                 "{}: the kernel must lie within the image {} x {} with padding {} on each side, got {} x {}", op,
                 height, width, padding, kernel_height, kernel_width);
  return {.batch = x.shape()[0],
          .channels = x.shape()[3],
          .height = height,
          .width = width,
          .kernel_height = kernel_height,
          .kernel_width = kernel_width,
          .out_height = (height + 2 * padding - kernel_height) / stride + 1,
          .out_width = (width + 2 * padding - kernel_width) / stride + 1,
          .stride = stride,
          .padding = padding};
}

void check_conv2d_weight(const char* op, const Tensor& x, const Tensor& weight, const Tensor* bias) {
  check_floating(op, "x", x, 4);
  check_floating(op, "weight", weight, 4);
  const Shape& w = weight.shape();
  check_operand(op, "weight", weight, {w[0], x.shape()[-1], w[2], w[3]}, x, "x");
  if (bias) check_operand(op, "bias", *bias, {w[0]}, x, "x");
}

}  // namespace foldgrad
