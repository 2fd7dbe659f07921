// Checks of the operands of convolutions and of unfold.
#pragma once
#include "ops/conv2d/conv2d.h"
#include "ops/conv2d/conv2d_kernels.h"

namespace foldgrad {

// Throws std::invalid_argument, in the name of `op`, unless x is [B, H, W, C], the stride is positive, the padding not
// negative, and the kernel within the padded image.
Conv2dSizes conv2d_sizes(const char* op, const Tensor& x, std::int64_t kernel_height, std::int64_t kernel_width,
                         const Conv2dOptions& options);

// Likewise unless weight is [O, C, Kh, Kw] for the channels of x, and bias, unless null, [O].
void check_conv2d_weight(const char* op, const Tensor& x, const Tensor& weight, const Tensor* bias);

}  // namespace foldgrad
