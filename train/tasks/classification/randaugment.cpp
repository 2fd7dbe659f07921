#include "train/tasks/classification/randaugment.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "train/loop/permutation.h"

namespace foldgrad {
namespace {

using Table = std::array<std::uint8_t, 256>;  // maps each value of a channel
using Counts = std::array<std::int64_t, 256>;

void map(const Canvas& canvas, const auto& value) {
  for (std::int64_t k = 0; k < canvas.bytes(); ++k) canvas.pixels[k] = std::uint8_t(value(int(canvas.pixels[k])));
}

// Maps each channel by a table. change(counts, table) makes the table by changing the identity.
void by_counts(const Canvas& canvas, const auto& change) {
  for (std::int64_t c = 0; c < kColours; ++c) {
    Counts counts{};
    for (std::int64_t k = c; k < canvas.bytes(); k += kColours) ++counts[canvas.pixels[k]];
    Table table;
    for (int v = 0; v < 256; ++v) table[v] = std::uint8_t(v);
    change(counts, table);
    for (std::int64_t k = c; k < canvas.bytes(); k += kColours) canvas.pixels[k] = table[canvas.pixels[k]];
  }
}

// Returns the first and the last value that occur.
std::pair<int, int> ends(const Counts& counts) {
  const auto there = [](std::int64_t n) { return n > 0; };
  const auto first = std::find_if(counts.begin(), counts.end(), there);
  const auto last = std::find_if(counts.rbegin(), counts.rend(), there);
  return {int(first - counts.begin()), int(counts.rend() - last) - 1};
}

void autocontrast(const Counts& counts, Table& table) {
  const auto [least, greatest] = ends(counts);
  if (greatest <= least) return;
  const double scale = 255.0 / (greatest - least);
  for (int v = least; v <= greatest; ++v)  // [RND-1]
    table[v] = std::uint8_t(std::clamp(v * scale - least * scale, 0.0, 255.0));
}

void equalize(const Counts& counts, Table& table) {
  std::int64_t pixels = 0;
  for (const std::int64_t n : counts) pixels += n;
  const std::int64_t step = (pixels - counts[ends(counts).second]) / 255;
  if (step == 0) return;
  std::int64_t below = step / 2;
  for (int v = 0; v < 256; ++v) {
    table[v] = std::uint8_t(std::min<std::int64_t>(below / step, 255));  // [RND-2]
    below += counts[v];
  }
}

// The point (a x + b y + c, d x + e y + f) that pixel (x, y) of the result comes from.
struct Affine {
  double a, b, c, d, e, f;
};

void transform(const Canvas& canvas, const Affine& m) {
  const std::int64_t H = canvas.height, W = canvas.width;
  const std::vector<std::uint8_t> before(canvas.pixels, canvas.pixels + canvas.bytes());
  std::uint8_t* out = canvas.pixels;
  for (std::int64_t y = 0; y < H; ++y)
    for (std::int64_t x = 0; x < W; ++x, out += kColours) {
      const double right = double(x) + 0.5, down = double(y) + 0.5;
      const double u = m.a * right + m.b * down + m.c, v = m.d * right + m.e * down + m.f;
      if (!(u >= 0 && u < double(W) && v >= 0 && v < double(H))) {
        std::ranges::copy(canvas.fill, out);
        continue;
      }
      const double left = std::floor(u - 0.5), top = std::floor(v - 0.5);
      const double du = u - 0.5 - left, dv = v - 0.5 - top;
      const auto column = [&](double k) { return std::clamp<std::int64_t>(std::int64_t(k), 0, W - 1) * kColours; };
      const auto row = [&](double k) { return std::clamp<std::int64_t>(std::int64_t(k), 0, H - 1) * W * kColours; };
      for (std::int64_t c = 0; c < kColours; ++c) {
        const auto at = [&](double i, double j) { return double(before[row(j) + column(i) + c]); };
        const double upper = at(left, top) + (at(left + 1, top) - at(left, top)) * du;
        const double lower = at(left, top + 1) + (at(left + 1, top + 1) - at(left, top + 1)) * du;
        out[c] = std::uint8_t(upper + (lower - upper) * dv + 0.5);  // [RND-4]
      }
    }
}

// Returns a counter-clockwise rotation around the middle of the image.
Affine rotation(const Canvas& canvas, double degrees) {
  const double angle = -degrees * std::numbers::pi / 180, cosine = std::cos(angle), sine = std::sin(angle);
  const double x = double(canvas.width) / 2, y = double(canvas.height) / 2;
  return {cosine, sine, x - cosine * x - sine * y, -sine, cosine, y + sine * x - cosine * y};
}

Affine shear(double across, double down) { return {1, across, 0, down, 1, 0}; }
Affine shift(double right, double down) { return {1, 0, right, 0, 1, down}; }

int gray(const std::uint8_t* pixel) {  // ITU-R 601-2, in Pillow's integers
  return (pixel[0] * 19595 + pixel[1] * 38470 + pixel[2] * 7471 + 0x8000) >> 16;
}

// Blends with a degenerate image. other(pixel) returns the values of that image at a pixel, one for each channel.
void blend(const Canvas& canvas, double m, const auto& other) {
  const float factor = float(std::max(0.1, 1 + 0.9 * m));
  for (std::int64_t k = 0; k < canvas.bytes(); k += kColours) {
    const std::array<int, kColours> z = other(k);
    for (std::int64_t c = 0; c < kColours; ++c) {
      const float value = float(z[c]) + factor * float(canvas.pixels[k + c] - z[c]);  // [RND-5]
      canvas.pixels[k + c] = std::uint8_t(std::clamp(value, 0.0f, 255.0f));
    }
  }
}

void change_colour(const Canvas& canvas, double m) {
  blend(canvas, m, [&](std::int64_t k) {
    const int z = gray(canvas.pixels + k);
    return std::array<int, kColours>{z, z, z};
  });
}

void change_contrast(const Canvas& canvas, double m) {
  double sum = 0;
  for (std::int64_t k = 0; k < canvas.bytes(); k += kColours) sum += gray(canvas.pixels + k);
  const int mean = int(sum * kColours / double(canvas.bytes()) + 0.5);
  blend(canvas, m, [&](std::int64_t) { return std::array<int, kColours>{mean, mean, mean}; });
}

void change_brightness(const Canvas& canvas, double m) {
  blend(canvas, m, [](std::int64_t) { return std::array<int, kColours>{}; });
}

// Smooths with 3 x 3 weights. The middle weight is five times each of the others.
void change_sharpness(const Canvas& canvas, double m) {
  const std::vector<std::uint8_t> before(canvas.pixels, canvas.pixels + canvas.bytes());
  const std::int64_t H = canvas.height, W = canvas.width;
  blend(canvas, m, [&](std::int64_t k) {
    const std::int64_t x = k / kColours % W, y = k / kColours / W;
    const bool border = x == 0 || y == 0 || x == W - 1 || y == H - 1;
    std::array<int, kColours> z;
    for (std::int64_t c = 0; c < kColours; ++c) {
      int sum = 4 * before[k + c];
      for (std::int64_t j = -1; j <= 1 && !border; ++j)
        for (std::int64_t i = -1; i <= 1; ++i) sum += before[k + (j * W + i) * kColours + c];
      z[c] = border ? before[k + c] : (2 * sum + 13) / 26;  // rounds to the nearest
    }
    return z;
  });
}

}  // namespace

const std::array<PictureOp, 15> kPictureOps{
    {{"identity", [](const Canvas&, double) {}},
     {"autocontrast", [](const Canvas& canvas, double) { by_counts(canvas, autocontrast); }},
     {"equalize", [](const Canvas& canvas, double) { by_counts(canvas, equalize); }},
     {"invert", [](const Canvas& canvas, double) { map(canvas, [](int v) { return 255 - v; }); }},  // [RND-3]
     {"posterize",
      [](const Canvas& canvas, double m) {
        const int lost = std::min(7, 4 + int(4 * std::abs(m)));
        map(canvas, [lost](int v) { return v >> lost << lost; });
      }},
     {"solarize",
      [](const Canvas& canvas, double m) {
        const int from = 256 - int(256 * std::abs(m));
        map(canvas, [from](int v) { return v < from ? v : 255 - v; });
      }},
     {"rotate", [](const Canvas& canvas, double m) { transform(canvas, rotation(canvas, 30 * m)); }},
     {"shear_x", [](const Canvas& canvas, double m) { transform(canvas, shear(0.3 * m, 0)); }},
     {"shear_y", [](const Canvas& canvas, double m) { transform(canvas, shear(0, 0.3 * m)); }},
     {"translate_x",
      [](const Canvas& canvas, double m) { transform(canvas, shift(0.45 * m * double(canvas.width), 0)); }},
     {"translate_y",
      [](const Canvas& canvas, double m) { transform(canvas, shift(0, 0.45 * m * double(canvas.height))); }},
     {"colour", change_colour},
     {"contrast", change_contrast},
     {"brightness", change_brightness},
     {"sharpness", change_sharpness}}};

void rand_augment(const RandAugment& options, const std::function<std::uint32_t()>& draw, const Canvas& canvas) {
  for (std::int64_t i = 0; i < options.operations; ++i) {
    const PictureOp& op = kPictureOps[std::size_t(draw_below(draw(), std::ssize(kPictureOps)))];
    const double m = double(options.magnitude) / 10;
    op.apply(canvas, draw() >> 31 ? -m : m);
  }
}

}  // namespace foldgrad
