#include "engine/cpu/rows.h"
#include "ops/conv2d/conv2d_kernels.h"

namespace foldgrad {
namespace {

constexpr std::int64_t kChunk = 64;  // number of channels whose sums stay in registers

// The part of an axis that output position i (or j) sees. Kernel offset v is at index first + v of the image. The
// offsets in [begin, end) are inside the image.
struct Window {
  std::int64_t first, begin, end;

  Window(std::int64_t place, const Conv2dSizes& s, std::int64_t kernel, std::int64_t image)
      : first(place * s.stride - s.padding),
        begin(std::clamp<std::int64_t>(-first, 0, kernel)),
        end(std::clamp(image - first, begin, kernel)) {}
};

// Writes the row of u for one output position. In u, adjacent channels of x are kernel_height * kernel_width apart.
template <class T>
void unfold_place(const UnfoldForward<T>& p, std::int64_t row) {
  const Conv2dSizes& s = p.s;
  const std::int64_t b = row / s.places(), l = row % s.places(), kernel = s.kernel_height * s.kernel_width;
  const Window down(l / s.out_width, s, s.kernel_height, s.height), across(l % s.out_width, s, s.kernel_width, s.width);
  T* u = p.u + row * s.values();
  std::fill_n(u, s.values(), T(compute_t<T>(0)));
  for (std::int64_t v = down.begin; v < down.end; ++v)
    for (std::int64_t w = across.begin; w < across.end; ++w) {
      const T* x = p.x + s.at(b, down.first + v, across.first + w);
      for (std::int64_t c = 0; c < s.channels; ++c) u[c * kernel + v * s.kernel_width + w] = x[c];  // [CONV-1]
    }
}

// Computes channels [first, first + width) of one pixel of dx, where `width` is at most kChunk.
template <class T>
void fold_pixel(const UnfoldBackward<T>& p, std::int64_t pixel, std::int64_t first, std::int64_t width) {
  using Value = compute_t<T>;
  const Conv2dSizes& s = p.s;
  const std::int64_t g = pixel % s.width, h = pixel / s.width % s.height, b = pixel / s.width / s.height,
                     kernel = s.kernel_height * s.kernel_width;
  Value sums[kChunk] = {};
  for (std::int64_t v = 0; v < s.kernel_height; ++v)
    for (std::int64_t w = 0; w < s.kernel_width; ++w) {
      const std::int64_t l = s.place_of(h, g, v, w);
      if (l < 0) continue;
      const T* du = p.du + (b * s.places() + l) * s.values() + first * kernel + v * s.kernel_width + w;
      for (std::int64_t c = 0; c < width; ++c) sums[c] += Value(du[c * kernel]);  // [CONV-3]
    }
  for (std::int64_t c = 0; c < width; ++c) p.dx.put(pixel * s.channels + first + c, sums[c]);
}

// Adds the products of one output position to the sums of its part.
template <class T>
void add_place(const DepthwiseWeightParts<T>& p, std::int64_t row, compute_t<T>* sums) {
  using Value = compute_t<T>;
  const Conv2dSizes& s = p.s;
  const std::int64_t b = row / s.places(), l = row % s.places();
  const Window down(l / s.out_width, s, s.kernel_height, s.height), across(l % s.out_width, s, s.kernel_width, s.width);
  const T* dy = p.dy + row * s.channels;
  for (std::int64_t v = down.begin; v < down.end; ++v)
    for (std::int64_t w = across.begin; w < across.end; ++w) {
      const T* x = p.x + s.at(b, down.first + v, across.first + w);
      Value* own = sums + (v * s.kernel_width + w) * s.channels;
#pragma omp simd
      for (std::int64_t c = 0; c < s.channels; ++c) own[c] += Value(dy[c]) * Value(x[c]);  // [CONV-6]
    }
}

}  // namespace

template <class T>
void depthwise_weight_parts_cpu(const DepthwiseWeightParts<T>& p) {
  const std::int64_t weights = p.s.values();
  for_rows_cpu(p.parts, p.s.batch * p.s.places() / p.parts * weights, [&p, weights](std::int64_t part) {
    compute_t<T>* sums = p.sums + part * weights;
    std::fill_n(sums, weights, compute_t<T>(0));
    for (std::int64_t row = p.begin(part); row < p.begin(part + 1); ++row) add_place(p, row, sums);
  });
}

template <class T>
void unfold_cpu(const UnfoldForward<T>& p) {
  for_rows_cpu(p.s.batch * p.s.places(), p.s.values(), [&p](std::int64_t row) { unfold_place(p, row); });
}
template <class T>
void unfold_cpu(const UnfoldBackward<T>& p) {
  const std::int64_t C = p.s.channels;
  for_rows_cpu(p.s.batch * p.s.height * p.s.width, C, [&p, C](std::int64_t pixel) {
    for (std::int64_t c = 0; c < C; c += kChunk) fold_pixel(p, pixel, c, std::min(kChunk, C - c));
  });
}

FOLDGRAD_INSTANTIATE(depthwise_weight_parts_cpu, DepthwiseWeightParts);
FOLDGRAD_INSTANTIATE(unfold_cpu, UnfoldForward);
FOLDGRAD_INSTANTIATE(unfold_cpu, UnfoldBackward);

}  // namespace foldgrad
