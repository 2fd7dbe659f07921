#include "ops/conv2d/conv2d_products.h"

#include <algorithm>
#include <string_view>

#include "engine/cpu/elementwise.h"
#include "engine/dispatch.h"
#include "engine/gemm/gemm.h"
#include "engine/memory.h"

namespace foldgrad {
namespace {

// Computes a depthwise convolution with loops, because each matrix product would have only one column.
void depthwise_product(Device device, const Conv2dProduct& p, const Conv2dBuffers& at) {
  const Conv2dSizes& s = p.s;
  dispatch_floating("conv2d_channels_last", p.dtype, [&]<class T>(Type<T>) {
    T *const x = static_cast<T*>(at.x), *const y = static_cast<T*>(at.y), *const weight = static_cast<T*>(at.weight);
    if (p.pass != Conv2dPass::dweight) {
      const bool back = p.pass == Conv2dPass::dx;
      const Depthwise<T> k{.to = back ? x : y,
                           .from = back ? y : x,
                           .weight = weight,
                           .bias = static_cast<const T*>(at.bias),
                           .s = s,
                           .backward = back};
      FOLDGRAD_RUN(device, elementwise, k);
      return;
    }
    constexpr std::int64_t kMostParts = 32;  // enough to keep all cores busy; not tuned for a GPU
    const std::int64_t parts = std::clamp<std::int64_t>(s.batch * s.places() / 16, 1, kMostParts);
    using Value = compute_t<T>;
    const auto scratch = memory::allocate(device, std::size_t(parts * s.values()) * sizeof(Value));
    Value* const sums = static_cast<Value*>(scratch.get());
    const DepthwiseWeightParts<T> k{.sums = sums, .x = x, .dy = y, .s = s, .parts = parts};
    FOLDGRAD_RUN(device, depthwise_weight_parts, k);
    const DepthwiseWeight<T> whole{.exact = p.f32_dweight ? static_cast<Value*>(at.weight) : nullptr,
                                   .rounded = weight,
                                   .sums = sums,
                                   .channels = s.channels,
                                   .kernel = s.kernel_height * s.kernel_width,
                                   .parts = parts};
    FOLDGRAD_RUN(device, elementwise, whole);
  });
}

// Multiplies the matrices of each group: the group's columns of u [rows, values] and of y, and the group's rows of the
// weight. One batched gemm() is not possible, since each group has its own part of the bias.
void multiply_groups(Device device, const Conv2dProduct& p, const Conv2dBuffers& at, const Tensor& u) {
  const std::int64_t rows = u.shape()[0], width = u.shape()[1], values = width / p.groups, out = p.out / p.groups;
  for (std::int64_t group = 0; group < p.groups; ++group) {
    const auto of_group = [group](const void* start, std::int64_t elements, DType dtype) -> void* {
      const std::int64_t bytes = group * elements * std::int64_t(size_of(dtype));
      return start ? const_cast<char*>(static_cast<const char*>(start)) + bytes : nullptr;
    };
    void *const y = of_group(at.y, out, p.dtype), *const columns = of_group(u.raw(), values, p.dtype),
                *const weight = of_group(at.weight, out * values, p.f32_dweight ? DType::f32 : p.dtype);
    if (p.pass == Conv2dPass::y)
      gemm(device, p.dtype,
           {.transpose_b = true, .m = rows, .n = out, .k = values, .row_stride_a = width, .row_stride_c = p.out}, y,
           columns, weight, of_group(at.bias, out, p.dtype));  // [CONV-4]
    else if (p.pass == Conv2dPass::dx)
      gemm(device, p.dtype, {.m = rows, .n = values, .k = out, .row_stride_a = p.out, .row_stride_c = width}, columns,
           y, weight);
    else
      gemm(device, p.dtype,
           {.transpose_a = true,
            .m = out,
            .n = values,
            .k = rows,
            .row_stride_a = p.out,
            .row_stride_b = width,
            .f32_c = p.f32_dweight},
           weight, y, columns);  // [CONV-6]
  }
}

}  // namespace

void plain_conv2d_product(Device device, const Conv2dProduct& p, const Conv2dBuffers& at) {
  if (p.depthwise()) return depthwise_product(device, p, at);
  const Conv2dSizes& s = p.s;
  const Tensor u = Tensor::empty({s.batch * s.places(), s.values()}, p.dtype, device);
  if (p.pass == Conv2dPass::dx) multiply_groups(device, p, at, u);
  dispatch_floating("conv2d_channels_last", p.dtype, [&]<class T>(Type<T>) {
    T* image = static_cast<T*>(at.x);
    const UnfoldForward<T> rows_of{.u = u.data<T>(), .x = image, .s = s};
    const UnfoldBackward<T> back{.dx = {image, GradMode::set}, .du = u.data<T>(), .s = s};
    if (p.pass == Conv2dPass::dx)
      FOLDGRAD_RUN(device, unfold, back);  // [CONV-5]
    else
      FOLDGRAD_RUN(device, unfold, rows_of);
  });
  if (p.pass != Conv2dPass::dx) multiply_groups(device, p, at, u);
}

void conv2d_product(Device device, const Conv2dProduct& p, const Conv2dBuffers& at) {
  const Conv2dSizes& s = p.s;
  [[maybe_unused]] const bool libraries = s.batch * s.height * s.width * s.values() * p.out > 0;
#ifdef FOLDGRAD_HAVE_CUDNN
  if (device == Device::cuda && libraries && cudnn_conv2d_product(p, at)) return;
#endif
#ifdef FOLDGRAD_HAVE_ONEDNN
  const bool onednn = device == Device::cpu && std::string_view(gemm_backend(device, p.dtype)).starts_with("oneDNN");
  const bool ours_are_faster = p.depthwise() && p.pass == Conv2dPass::dweight;
  if (onednn && !ours_are_faster && libraries && onednn_conv2d_product(p, at)) return;
#endif
  plain_conv2d_product(device, p, at);
}

}  // namespace foldgrad
