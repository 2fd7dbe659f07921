#include "train/data/images/augmentation.h"

#include <algorithm>
#include <charconv>

#include "engine/check.h"
#include "engine/philox.h"
#include "train/data/permutation.h"

namespace foldgrad {
namespace {

// Streams of random numbers: one whose step is the epoch, one that all epochs share.
constexpr std::uint32_t kEpochStream = 0x6175676d, kMirrorStream = 0x6d697272;  // "augm", "mirr"

// The words of an image, and which of them decides what.
constexpr std::int64_t kWords = 64;
// Words of random numbers per image; RandAugment takes all words from its own on.
enum Word { kCropRow, kCropColumn, kFlip, kCutoutRow, kCutoutColumn, kRandAugment };
constexpr std::int64_t kMostOperations = 8, kMostMagnitude = 10;

// "crop4" gives 4 for "crop", and 0 when it is something else.
std::int64_t number_behind(const std::string& name, const std::string& kind) {
  std::int64_t number = 0;
  if (!name.starts_with(kind)) return 0;
  const char *begin = name.data() + kind.size(), *end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(begin, end, number);
  return error == std::errc() && rest == end && number <= 1000 ? number : 0;
}

// "randaugment2m9"; without operations when it is something else.
RandAugment rand_augment_of(const std::string& name) {
  constexpr std::string_view kKind = "randaugment";
  RandAugment r;
  if (!name.starts_with(kKind)) return {};
  const char* end = name.data() + name.size();
  const auto first = std::from_chars(name.data() + kKind.size(), end, r.operations);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != 'm') return {};
  const auto second = std::from_chars(first.ptr + 1, end, r.magnitude);
  const bool good = second.ec == std::errc() && second.ptr == end && r.operations >= 1 &&
                    r.operations <= kMostOperations && r.magnitude >= 0 && r.magnitude <= kMostMagnitude;
  return good ? r : RandAugment();
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
    const RandAugment rand = rand_augment_of(name);
    const bool flip = name == "flip" || name == "flip_alternating";
    FOLDGRAD_CHECK(crop > 0 || cutout > 0 || flip || rand.operations > 0,
                   "augmentation: must be of crop4 (or another number), flip, flip_alternating, randaugment2m9 (1 to 8 "
                   "operations of magnitude 0 to 10), cutout8, got \"{}\"",
                   name);
    FOLDGRAD_CHECK(!(crop > 0 && a.crop > 0) && !(cutout > 0 && a.cutout > 0) && !(flip && a.flip != Flip::never) &&
                       !(rand.operations > 0 && a.rand_augment.operations > 0),
                   "augmentation: there must be one of a kind, got another with \"{}\"", name);
    if (crop > 0) a.crop = crop;
    if (cutout > 0) a.cutout = cutout;
    if (flip) a.flip = name == "flip" ? Flip::random : Flip::alternating;
    if (rand.operations > 0) a.rand_augment = rand;
  }
  return a;
}

void augment(const Augmentation& a, const ImageSet& images, std::int64_t i, std::uint64_t seed, std::int64_t epoch,
             std::uint8_t* out) {
  const std::int64_t H = images.height(), W = images.width();
  const Random random{.seed = seed, .stream = kEpochStream, .step = std::uint32_t(epoch)};
  const auto bits = [&](std::int64_t word) { return random.bits(std::uint64_t(i * kWords + word)); };
  const auto below = [&](Word word, std::int64_t n) { return draw_below(bits(word), n); };
  const std::int64_t down = below(kCropRow, 2 * a.crop + 1) - a.crop;
  const std::int64_t right = below(kCropColumn, 2 * a.crop + 1) - a.crop;
  const bool mirrored = a.flip != Flip::never && is_mirrored(a.flip, i, seed, epoch, bits(kFlip));

  const std::uint8_t* image = images.image(i);
  std::uint8_t* pixel = out;
  for (std::int64_t h = 0; h < H; ++h)
    for (std::int64_t w = 0; w < W; ++w, pixel += kColours) {
      const std::int64_t y = h + down, x = (mirrored ? W - 1 - w : w) + right;  // [AUG-1]
      const bool is_inside = y >= 0 && y < H && x >= 0 && x < W;
      std::copy_n(is_inside ? image + (y * W + x) * kColours : a.fill.data(), kColours, pixel);
    }
  std::int64_t word = kRandAugment;
  rand_augment(a.rand_augment, [&] { return bits(word++); }, {H, W, a.fill, out});
  const std::int64_t top = below(kCutoutRow, H) - a.cutout / 2, left = below(kCutoutColumn, W) - a.cutout / 2;
  for (std::int64_t h = std::max<std::int64_t>(top, 0); h < std::min(top + a.cutout, H); ++h)  // [AUG-4]
    for (std::int64_t w = std::max<std::int64_t>(left, 0); w < std::min(left + a.cutout, W); ++w)
      std::copy_n(a.fill.data(), kColours, out + (h * W + w) * kColours);
}

}  // namespace foldgrad
