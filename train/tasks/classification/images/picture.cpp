#include "train/tasks/classification/images/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/files/file.h"
#include "train/tasks/classification/images/set.h"

namespace foldgrad {
namespace {

// The weights of the sum that gives one pixel of the result.
struct Weights {
  std::int64_t first;
  std::vector<double> of;  // weights of pixel `first` and of the pixels after it
};

// Returns the weights that resize a line of n pixels: `side` pixels, starting at `begin`, become `size` pixels.
std::vector<Weights> weights(std::int64_t n, double begin, double side, std::int64_t size) {
  const double ratio = side / double(size), reach = std::max(ratio, 1.0);
  std::vector<Weights> all;
  for (std::int64_t i = 0; i < size; ++i) {
    const double centre = begin + (double(i) + 0.5) * ratio;
    const std::int64_t first = std::max<std::int64_t>(0, std::int64_t(std::floor(centre - reach)));
    const std::int64_t end = std::min(n, std::int64_t(std::ceil(centre + reach)));
    Weights w{first, {}};
    double sum = 0;
    for (std::int64_t j = first; j < end; ++j) {
      w.of.push_back(std::max(0.0, 1 - std::abs(double(j) + 0.5 - centre) / reach));  // [PIC-1]
      sum += w.of.back();
    }
    for (double& weight : w.of) weight /= sum;
    all.push_back(std::move(w));
  }
  return all;
}

std::int64_t end_of(const Weights& w) { return w.first + std::int64_t(w.of.size()); }

}  // namespace

Picture square(const Picture& picture, std::int64_t size) {
  const std::int64_t H = picture.height, W = picture.width, side = std::min(H, W);
  if (H == size && W == size) return picture;
  const auto across = weights(W, double(W - side) / 2, double(side), size);
  const auto down = weights(H, double(H - side) / 2, double(side), size);
  const std::int64_t top = down.front().first, rows = end_of(down.back()) - top;
  std::vector<float> narrow(std::size_t(rows * size * kColours));
  for (std::int64_t y = 0; y < rows; ++y)
    for (std::int64_t i = 0; i < size; ++i)
      for (std::int64_t c = 0; c < kColours; ++c) {
        const std::uint8_t* from = picture.pixels.data() + ((top + y) * W + across[i].first) * kColours + c;
        double sum = 0;
        for (std::size_t j = 0; j < across[i].of.size(); ++j) sum += across[i].of[j] * from[j * kColours];
        narrow[(y * size + i) * kColours + c] = float(sum);
      }
  Picture out{size, size, std::vector<std::uint8_t>(std::size_t(size * size * kColours))};
  for (std::int64_t i = 0; i < size; ++i)
    for (std::int64_t x = 0; x < size * kColours; ++x) {
      const float* from = narrow.data() + (down[i].first - top) * size * kColours + x;
      double sum = 0;
      for (std::size_t j = 0; j < down[i].of.size(); ++j) sum += down[i].of[j] * from[j * size * kColours];
      out.pixels[i * size * kColours + x] = std::uint8_t(std::clamp(sum + 0.5, 0.0, 255.0));
    }
  return out;
}

void check_size(const std::string& path, const char* format, std::int64_t width, std::int64_t height) {
  if (width < 1 || height < 1 || width > kMostPixels / height)
    throw FileError(path, fmt::format("{}: must have 1 to {} pixels, got {} x {}", format, kMostPixels, width, height));
}

Picture decode_picture(const std::string& path, std::string_view content) {
  if (content.starts_with("\x89PNG\r\n\x1a\n")) return decode_png(path, content);
  if (content.starts_with("\xff\xd8\xff")) return decode_jpeg(path, content);
  throw FileError(path, "must be a PNG or JPEG file");
}

Picture read_picture(const std::string& path) { return decode_picture(path, read_file(path)); }

}  // namespace foldgrad
