#include <omp.h>

#include <algorithm>

#include "engine/memory.h"
#include "ops/conv2d/conv2d_kernels.h"

namespace foldgrad {
namespace {

constexpr std::int64_t kParallelElements = 16384;

// The part of an axis that place i (or j) sees: kernel offsets [begin, end) hit the image, from image index first on.
struct Window {
  std::int64_t first, begin, end;

  Window(std::int64_t place, const Conv2dSizes& s, std::int64_t kernel, std::int64_t image)
      : first(place * s.stride - s.padding),
        begin(std::clamp<std::int64_t>(-first, 0, kernel)),
        end(std::clamp(image - first, begin, kernel)) {}
};

// The values of one place: a row of u.
template <class T>
void unfold_place(const UnfoldForward<T>& p, std::int64_t row) {
  const Conv2dSizes& s = p.s;
  const std::int64_t b = row / s.places(), l = row % s.places();
  const Window down(l / s.out_width, s, s.kernel_height, s.height), across(l % s.out_width, s, s.kernel_width, s.width);
  T* u = p.u + row * s.values();
  for (std::int64_t c = 0; c < s.channels; ++c)
    for (std::int64_t v = 0; v < s.kernel_height; ++v, u += s.kernel_width) {
      std::fill_n(u, s.kernel_width, T(compute_t<T>(0)));
      if (v < down.begin || v >= down.end) continue;
      const T* x = p.x + ((b * s.channels + c) * s.height + down.first + v) * s.width + across.first;
      std::copy(x + across.begin, x + across.end, u + across.begin);  // [CONV-1]
    }
}

// The same with channels last: neighbours in x are a kernel apart in u.
template <class T>
void unfold_place_of_pixels(const UnfoldForward<T>& p, std::int64_t row) {
  const Conv2dSizes& s = p.s;
  const std::int64_t b = row / s.places(), l = row % s.places(), kernel = s.kernel_height * s.kernel_width;
  const Window down(l / s.out_width, s, s.kernel_height, s.height), across(l % s.out_width, s, s.kernel_width, s.width);
  T* u = p.u + row * s.values();
  std::fill_n(u, s.values(), T(compute_t<T>(0)));
  for (std::int64_t v = down.begin; v < down.end; ++v)
    for (std::int64_t w = across.begin; w < across.end; ++w) {
      const T* x = p.x + s.at(b, 0, down.first + v, across.first + w);
      for (std::int64_t c = 0; c < s.channels; ++c) u[c * kernel + v * s.kernel_width + w] = x[c];  // [CONV-1]
    }
}

// sums: [height, width], of one channel of one image.
template <class T>
void fold_channel(const UnfoldBackward<T>& p, std::int64_t plane, compute_t<T>* sums) {
  using Value = compute_t<T>;
  const Conv2dSizes& s = p.s;
  const std::int64_t b = plane / s.channels, c = plane % s.channels;
  std::fill_n(sums, s.height * s.width, Value(0));
  for (std::int64_t l = 0; l < s.places(); ++l) {
    const Window down(l / s.out_width, s, s.kernel_height, s.height),
        across(l % s.out_width, s, s.kernel_width, s.width);
    for (std::int64_t v = down.begin; v < down.end; ++v) {
      const T* du = p.du + (b * s.places() + l) * s.values() + (c * s.kernel_height + v) * s.kernel_width;
      Value* row = sums + (down.first + v) * s.width + across.first;
      for (std::int64_t w = across.begin; w < across.end; ++w) row[w] += Value(du[w]);  // [CONV-3]
    }
  }
  const GradOut<T> dx{p.dx.data + plane * s.height * s.width, p.dx.mode};
  for (std::int64_t i = 0; i < s.height * s.width; ++i) dx.put(i, sums[i]);
}

// sums: [channels], of one pixel of one image.
template <class T>
void fold_pixel(const UnfoldBackward<T>& p, std::int64_t pixel, compute_t<T>* sums) {
  using Value = compute_t<T>;
  const Conv2dSizes& s = p.s;
  const std::int64_t g = pixel % s.width, h = pixel / s.width % s.height, b = pixel / s.width / s.height,
                     kernel = s.kernel_height * s.kernel_width;
  std::fill_n(sums, s.channels, Value(0));
  for (std::int64_t v = 0; v < s.kernel_height; ++v)
    for (std::int64_t w = 0; w < s.kernel_width; ++w) {
      const std::int64_t l = s.place_of(h, g, v, w);
      if (l < 0) continue;
      const T* du = p.du + (b * s.places() + l) * s.values() + v * s.kernel_width + w;
      for (std::int64_t c = 0; c < s.channels; ++c) sums[c] += Value(du[c * kernel]);  // [CONV-3]
    }
  const GradOut<T> dx{p.dx.data + pixel * s.channels, p.dx.mode};
  for (std::int64_t c = 0; c < s.channels; ++c) dx.put(c, sums[c]);
}

}  // namespace

template <class T>
void unfold_cpu(const UnfoldForward<T>& p) {
  const std::int64_t rows = p.s.batch * p.s.places();
#pragma omp parallel for schedule(static) if (rows * p.s.values() >= kParallelElements)
  for (std::int64_t row = 0; row < rows; ++row)
    p.s.channels_last ? unfold_place_of_pixels(p, row) : unfold_place(p, row);
}

// A thread owns what it adds up: a channel of an image, or with channels last a pixel.
template <class T>
void unfold_cpu(const UnfoldBackward<T>& p) {
  using Value = compute_t<T>;
  const Conv2dSizes& s = p.s;
  const std::int64_t owned = s.batch * (s.channels_last ? s.height * s.width : s.channels),
                     size = s.channels_last ? s.channels : s.height * s.width;
  // Sums per thread, allocated here because an exception must not leave a parallel loop.
  const auto scratch =
      memory::allocate(Device::cpu, std::size_t(omp_get_max_threads()) * std::size_t(size) * sizeof(Value));
  Value* sums = static_cast<Value*>(scratch.get());
#pragma omp parallel for schedule(static) if (owned * size >= kParallelElements)
  for (std::int64_t i = 0; i < owned; ++i) {
    Value* own = sums + omp_get_thread_num() * size;
    s.channels_last ? fold_pixel(p, i, own) : fold_channel(p, i, own);
  }
}

FOLDGRAD_INSTANTIATE(unfold_cpu, UnfoldForward);
FOLDGRAD_INSTANTIATE(unfold_cpu, UnfoldBackward);

}  // namespace foldgrad
