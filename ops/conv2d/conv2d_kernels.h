#pragma once
#include "engine/kernels.h"

namespace foldgrad {

struct Conv2dSizes {
  std::int64_t batch, channels, height, width, kernel_height, kernel_width, out_height, out_width, stride, padding;

  FOLDGRAD_HD std::int64_t places() const { return out_height * out_width; }                   // l
  FOLDGRAD_HD std::int64_t values() const { return channels * kernel_height * kernel_width; }  // k
};

template <class T>
struct UnfoldForward {
  T* u;        // [batch, places, values]
  const T* x;  // [batch, channels, height, width]
  Conv2dSizes s;
};

template <class T>
struct UnfoldBackward {
  GradOut<T> dx;  // [batch, channels, height, width]
  const T* du;    // [batch, places, values]
  Conv2dSizes s;
};

FOLDGRAD_DECLARE(unfold, UnfoldForward);
FOLDGRAD_DECLARE(unfold, UnfoldBackward);

// conv2d_cudnn.cu, in builds with cuDNN: everything on `cuda`, of the type dtype. bias may be null, and so may
// gradients that nobody wants.
void conv2d_forward_cudnn(DType dtype, const Conv2dSizes& s, std::int64_t out_channels, void* y, const void* x,
                          const void* weight, const void* bias);
struct Conv2dGrads {
  void *dx, *dweight, *dbias;
  GradMode dx_mode, dweight_mode, dbias_mode;
};
void conv2d_backward_cudnn(DType dtype, const Conv2dSizes& s, std::int64_t out_channels, const Conv2dGrads& grads,
                           const void* dy, const void* x, const void* weight);

}  // namespace foldgrad
