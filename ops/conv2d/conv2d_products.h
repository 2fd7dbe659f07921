// The products of a channels-last convolution: y from x and weight, dx from weight and dy, and dweight from x and dy.
#pragma once
#include "engine/device.h"
#include "engine/dtype.h"
#include "ops/conv2d/conv2d_kernels.h"

namespace foldgrad {

struct Conv2dOptions;
class Tensor;

// Throws std::invalid_argument unless x is [B, H, W, C], the stride is positive, the padding is not negative, and the
// kernel fits the padded image. The message begins with `op`.
Conv2dSizes conv2d_sizes(const char* op, const Tensor& x, std::int64_t kernel_height, std::int64_t kernel_width,
                         const Conv2dOptions& options, std::int64_t extra_padding = 0);

enum class Conv2dPass : std::uint8_t { y, dx, dweight };

struct Conv2dProduct {
  Conv2dPass pass;
  DType dtype;
  Conv2dSizes s;
  std::int64_t out;          // number of channels of y
  bool f32_dweight = false;  // for bf16 operands: dweight is f32, so that sums are not rounded to bf16
  std::int64_t groups = 1;   // number of groups; divides the channels of x and of y

  // Returns true if channel c of y is computed from channel c of x only.
  bool depthwise() const { return groups > 1 && groups == s.channels && groups == out; }
  std::int64_t weights() const { return out * s.values() / groups; }
};

struct Conv2dBuffers {
  void* x;                     // [batch, height, width, channels]; dx in the dx pass
  void* weight;                // [out, channels / groups, kernel_height, kernel_width]; dweight in the dweight pass
  void* y;                     // [batch, out_height, out_width, out]; dy in the dx and dweight passes
  const void* bias = nullptr;  // [out], added to y; may be null
};

// Calls the device's library if it covers the case, otherwise plain_conv2d_product().
void conv2d_product(Device device, const Conv2dProduct& p, const Conv2dBuffers& at);
// Computes the product with our loops, for every dtype and size, on both devices. Tests compare the libraries with it.
void plain_conv2d_product(Device device, const Conv2dProduct& p, const Conv2dBuffers& at);
// These return false and write nothing if the library does not cover the case.
bool onednn_conv2d_product(const Conv2dProduct& p, const Conv2dBuffers& at);
bool cudnn_conv2d_product(const Conv2dProduct& p, const Conv2dBuffers& at);

}  // namespace foldgrad
