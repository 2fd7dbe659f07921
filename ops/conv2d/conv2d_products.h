// The three products of a convolution with channels last, and their computation. Each writes one of x, weight and y,
// all of it, from the two others.
#pragma once
#include "engine/device.h"
#include "engine/dtype.h"
#include "ops/conv2d/conv2d_kernels.h"

namespace foldgrad {

struct Conv2dOptions;
class Tensor;

// Throws std::invalid_argument, in the name of `op`, unless x is [B, H, W, C], the stride is positive, the padding not
// negative, and the kernel within the padded image.
Conv2dSizes conv2d_sizes(const char* op, const Tensor& x, std::int64_t kernel_height, std::int64_t kernel_width,
                         const Conv2dOptions& options);

enum class Conv2dPass : std::uint8_t { y, dx, dweight };

struct Conv2dProduct {
  Conv2dPass pass;
  DType dtype;
  Conv2dSizes s;
  std::int64_t out;          // channels of y
  bool f32_dweight = false;  // for bf16 operands: dweight is f32, so that no sum is rounded to bf16
};

struct Conv2dBuffers {
  void* x;                     // [batch, height, width, channels], or its gradient
  void* weight;                // [out, channels, kernel_height, kernel_width], likewise
  void* y;                     // [batch, out_height, out_width, out], likewise
  const void* bias = nullptr;  // [out], added to y
};

// Uses the library that this device has for it, or else what is below.
void conv2d_product(Device device, const Conv2dProduct& p, const Conv2dBuffers& at);
// Covers every dtype, all sizes and both devices: what the others are compared with.
void plain_conv2d_product(Device device, const Conv2dProduct& p, const Conv2dBuffers& at);
// Return false for a case that the library does not cover; nothing is written then.
bool onednn_conv2d_product(const Conv2dProduct& p, const Conv2dBuffers& at);
bool cudnn_conv2d_product(const Conv2dProduct& p, const Conv2dBuffers& at);

}  // namespace foldgrad
