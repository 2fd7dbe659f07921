#include "ops/conv2d/conv2d_products.h"

#include <string_view>

#include "engine/dispatch.h"
#include "engine/gemm/gemm.h"

namespace foldgrad {
void plain_conv2d_product(Device device, const Conv2dProduct& p, const Conv2dBuffers& at) {
  const Conv2dSizes& s = p.s;
  const std::int64_t rows = s.batch * s.places(), values = s.values();
  const Tensor u = Tensor::empty({rows, values}, p.dtype, device);
  if (p.pass == Conv2dPass::dx) gemm(device, p.dtype, {.m = rows, .n = values, .k = p.out}, u.raw(), at.y, at.weight);
  dispatch_floating("conv2d_channels_last", p.dtype, [&]<class T>(Type<T>) {
    T* image = static_cast<T*>(at.x);
    const UnfoldForward<T> rows_of{.u = u.data<T>(), .x = image, .s = s};
    const UnfoldBackward<T> back{.dx = {image, GradMode::set}, .du = u.data<T>(), .s = s};
    if (p.pass == Conv2dPass::dx)
      FOLDGRAD_RUN(device, unfold, back);  // [CONV-5]
    else
      FOLDGRAD_RUN(device, unfold, rows_of);
  });
  if (p.pass == Conv2dPass::y)
    gemm(device, p.dtype, {.transpose_b = true, .m = rows, .n = p.out, .k = values}, at.y, u.raw(), at.weight,
         at.bias);  // [CONV-4]
  if (p.pass == Conv2dPass::dweight)
    gemm(device, p.dtype, {.transpose_a = true, .m = p.out, .n = values, .k = rows, .f32_c = p.f32_dweight}, at.weight,
         at.y, u.raw());  // [CONV-6]
}

void conv2d_product(Device device, const Conv2dProduct& p, const Conv2dBuffers& at) {
  const Conv2dSizes& s = p.s;
  [[maybe_unused]] const bool libraries = s.batch * s.height * s.width * s.values() * p.out > 0;
#ifdef FOLDGRAD_HAVE_CUDNN
  if (device == Device::cuda && libraries && cudnn_conv2d_product(p, at)) return;
#endif
#ifdef FOLDGRAD_HAVE_ONEDNN
  const bool onednn = device == Device::cpu && std::string_view(gemm_backend(device, p.dtype)).starts_with("oneDNN");
  if (onednn && libraries && onednn_conv2d_product(p, at)) return;
#endif
  plain_conv2d_product(device, p, at);
}

}  // namespace foldgrad
