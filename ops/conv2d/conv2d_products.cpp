#include "ops/conv2d/conv2d_products.h"

#include <string_view>

#include "engine/dispatch.h"
#include "engine/gemm/gemm.h"
#include "ops/permute/permute_kernels.h"

namespace foldgrad {
namespace {

#ifdef FOLDGRAD_HAVE_CUDNN
// Transposes O matrices: cuDNN wants the weights as [O, Kh Kw, C] beside such images.
void transpose(DType dtype, std::int64_t out, std::int64_t rows, std::int64_t columns, void* to, const void* from) {
  dispatch_floating("conv2d_channels_last", dtype, [&]<class T>(Type<T>) {
    const std::int64_t size = rows * columns;
    permute_cuda(Permute<T>{.y = {static_cast<T*>(to), GradMode::set},
                            .x = static_cast<const T*>(from),
                            .outer_axes = 1,
                            .outer_size = {out},
                            .outer_x = {size},
                            .outer_y = {size},
                            .matrices = out,
                            .rows = rows,
                            .columns = columns,
                            .row_x = 1,
                            .row_y = columns,
                            .column_x = rows});
  });
}

bool cudnn_product(const Conv2dProduct& p, const Conv2dBuffers& at) {
  // cuDNN writes bf16 results only from bf16 operands.
  if (p.dtype == DType::f64 || p.f32_dweight) return false;
  const std::int64_t kernel = p.s.kernel_height * p.s.kernel_width;
  const Tensor weight = Tensor::empty({p.out, kernel, p.s.channels}, p.dtype, Device::cuda);
  if (p.pass != Conv2dPass::dweight) transpose(p.dtype, p.out, kernel, p.s.channels, weight.raw(), at.weight);
  if (!cudnn_conv2d_product(p, {.x = at.x, .weight = weight.raw(), .y = at.y, .bias = at.bias})) return false;
  if (p.pass == Conv2dPass::dweight) transpose(p.dtype, p.out, p.s.channels, kernel, at.weight, weight.raw());
  return true;
}
#endif

}  // namespace

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
  if (device == Device::cuda && libraries && cudnn_product(p, at)) return;
#endif
#ifdef FOLDGRAD_HAVE_ONEDNN
  const bool onednn = device == Device::cpu && std::string_view(gemm_backend(device, p.dtype)).starts_with("oneDNN");
  if (onednn && libraries && onednn_conv2d_product(p, at)) return;
#endif
  plain_conv2d_product(device, p, at);
}

}  // namespace foldgrad
