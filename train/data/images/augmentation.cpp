#include "train/data/images/augmentation.h"

#include <algorithm>
#include <charconv>

#include "engine/check.h"
#include "engine/philox.h"
#include "train/data/images/draw.h"

namespace foldgrad {
namespace {

// Streams of random numbers: one whose step is the epoch, one that all epochs share.
constexpr std::uint32_t kEpochStream = 0x6175676d, kMirrorStream = 0x6d697272;  // "augm", "mirr"

// The words of an image, and which of them decides what.
constexpr std::int64_t kWords = 64;
enum Word { kCropRow, kCropColumn, kFlip, kCutoutRow, kCutoutColumn };

// "crop4" gives 4 for "crop", and 0 when it is something else.
std::int64_t number_behind(const std::string& name, const std::string& kind) {
  std::int64_t number = 0;
  if (!name.starts_with(kind)) return 0;
  const char *begin = name.data() + kind.size(), *end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(begin, end, number);
  return error == std::errc() && rest == end && number <= 1000 ? number : 0;
}

bool is_mirrored(Flip flip, std::int64_t i, std::uint64_t seed, std::int64_t epoch, std::uint32_t bits) {
  if (flip == Flip::random) return bits >> 31;  // [AUG-2]
  const std::uint32_t first = Random{.seed = seed, .stream = kMirrorStream}.bits(std::uint64_t(i)) >> 31;
  return flip == Flip::alternating && (first + epoch) % 2 == 1;  // [AUG-3]
}

}  // namespace

Augmentation augmentation(const std::vector<std::string>& names) {
  Augmentation a;
  for (const std::string& name : names) {
    const std::int64_t crop = number_behind(name, "crop"), cutout = number_behind(name, "cutout");
    const bool flip = name == "flip" || name == "flip_alternating";
    FOLDGRAD_CHECK(crop > 0 || cutout > 0 || flip,
                   "augmentation: must be of crop4 (or another number), flip, flip_alternating, cutout8, got \"{}\"",
                   name);
    FOLDGRAD_CHECK(!(crop > 0 && a.crop > 0) && !(cutout > 0 && a.cutout > 0) && !(flip && a.flip != Flip::never),
                   "augmentation: there must be one of a kind, got another with \"{}\"", name);
    if (crop > 0) a.crop = crop;
    if (cutout > 0) a.cutout = cutout;
    if (flip) a.flip = name == "flip" ? Flip::random : Flip::alternating;
  }
  return a;
}

void augment(const Augmentation& a, const ImageSet& images, std::int64_t i, std::uint64_t seed, std::int64_t epoch,
             std::uint8_t* out) {
  const std::int64_t H = images.height(), W = images.width();
  const Random random{.seed = seed, .stream = kEpochStream, .step = std::uint32_t(epoch)};
  const auto below = [&](Word word, std::int64_t n) {
    return draw_below(random.bits(std::uint64_t(i * kWords + word)), n);
  };
  const std::int64_t down = below(kCropRow, 2 * a.crop + 1) - a.crop;
  const std::int64_t right = below(kCropColumn, 2 * a.crop + 1) - a.crop;
  const bool mirrored =
      a.flip != Flip::never && is_mirrored(a.flip, i, seed, epoch, random.bits(std::uint64_t(i * kWords + kFlip)));
  const std::int64_t top = below(kCutoutRow, H) - a.cutout / 2, left = below(kCutoutColumn, W) - a.cutout / 2;

  const std::uint8_t* image = images.image(i);
  for (std::int64_t h = 0; h < H; ++h)
    for (std::int64_t w = 0; w < W; ++w, out += kColours) {
      const std::int64_t y = h + down, x = (mirrored ? W - 1 - w : w) + right;  // [AUG-1]
      const bool is_inside = y >= 0 && y < H && x >= 0 && x < W;
      const bool is_cut = h >= top && h < top + a.cutout && w >= left && w < left + a.cutout;  // [AUG-4]
      std::copy_n(is_inside && !is_cut ? image + (y * W + x) * kColours : a.fill.data(), kColours, out);
    }
}

}  // namespace foldgrad
