#include <omp.h>

#include <algorithm>

#include "engine/memory.h"
#include "ops/conv2d/conv2d_kernels.h"

namespace foldgrad {
namespace {

constexpr std::int64_t kParallelElements = 16384;

// What place i (or j) sees of an axis: kernel offsets [begin, end) hit the image, at image index first + offset.
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

}  // namespace

template <class T>
void unfold_cpu(const UnfoldForward<T>& p) {
  const std::int64_t rows = p.s.batch * p.s.places();
#pragma omp parallel for schedule(static) if (rows * p.s.values() >= kParallelElements)
  for (std::int64_t row = 0; row < rows; ++row) unfold_place(p, row);
}

template <class T>
void unfold_cpu(const UnfoldBackward<T>& p) {
  using Value = compute_t<T>;
  const std::int64_t planes = p.s.batch * p.s.channels, size = p.s.height * p.s.width;
  // One channel's sums per thread, allocated here because an exception must not leave a parallel loop.
  const auto scratch =
      memory::allocate(Device::cpu, std::size_t(omp_get_max_threads()) * std::size_t(size) * sizeof(Value));
  Value* sums = static_cast<Value*>(scratch.get());
#pragma omp parallel for schedule(static) if (planes * size >= kParallelElements)
  for (std::int64_t plane = 0; plane < planes; ++plane) fold_channel(p, plane, sums + omp_get_thread_num() * size);
}

FOLDGRAD_INSTANTIATE(unfold_cpu, UnfoldForward);
FOLDGRAD_INSTANTIATE(unfold_cpu, UnfoldBackward);

}  // namespace foldgrad
