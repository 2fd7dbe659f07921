#include "train/tasks/classification/augmentation.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <set>
#include <string_view>

#include "engine/check.h"
#include "engine/philox.h"
#include "train/loop/permutation.h"

namespace foldgrad {
namespace {

// Streams of random numbers: one whose step is the epoch, and one that all epochs share.
constexpr std::uint32_t kEpochStream = 0x6175676d, kMirrorStream = 0x6d697272;  // "augm", "mirr"

// The number of random words per image.
constexpr std::int64_t kWords = 64;
// The words of an image by their purpose; RandAugment takes the words starting at kRandAugment.
enum Word { kCropRow, kCropColumn, kFlip, kCutoutRow, kCutoutColumn, kRandAugment };

struct NamedNumber {
  std::string_view word;
  std::int64_t least, most;
  std::int64_t& number;
};

// Reads a name of words, each followed by its number, such as "randaugment2m9". Returns false for any other name.
bool read_numbers(std::string_view name, std::initializer_list<NamedNumber> numbers) {
  for (const auto& [word, least, most, number] : numbers) {
    if (!name.starts_with(word)) return false;
    const auto [rest, error] = std::from_chars(name.data() + word.size(), name.data() + name.size(), number);
    if (error != std::errc() || number < least || number > most) return false;
    name.remove_prefix(std::size_t(rest - name.data()));
  }
  return name.empty();
}

// Adds the named augmentation to `a`. Returns false if the name is unknown.
bool read_name(const std::string& name, Augmentation& a) {
  if (name == "flip" || name == "flip_alternating") {
    a.flip = name == "flip" ? Flip::random : Flip::alternating;
    return true;
  }
  return read_numbers(name, {{"crop", 1, 1000, a.crop}}) || read_numbers(name, {{"cutout", 1, 1000, a.cutout}}) ||
         read_numbers(name, {{"randaugment", 1, 8, a.rand_augment.operations}, {"m", 0, 10, a.rand_augment.magnitude}});
}

bool is_mirrored(Flip flip, std::int64_t i, std::uint64_t seed, std::int64_t epoch, std::uint32_t bits) {
  if (flip == Flip::random) return bits >> 31;  // [AUG-2]
  const std::uint32_t first = Random{.seed = seed, .stream = kMirrorStream}.bits(std::uint64_t(i)) >> 31;
  return (first + epoch) % 2 == 1;  // [AUG-3]
}

}  // namespace

Augmentation augmentation(const std::vector<std::string>& names) {
  Augmentation a;
  std::set<std::string> kinds;
  for (const std::string& name : names) {
    FOLDGRAD_CHECK(
        read_name(name, a),
        "augmentation: a name must be one of crop4 (or another number), flip, flip_alternating, randaugment2m9 (1 to 8 "
        "operations of magnitude 0 to 10), cutout8, got \"{}\"",
        name);
    const std::string kind = name.substr(0, name.find_first_of("_0123456789"));
    FOLDGRAD_CHECK(kinds.insert(kind).second,
                   "augmentation: there must be at most one name of each kind, got a second one, \"{}\"", name);
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
      std::copy_n(is_inside ? image + (y * W + x) * kColours : a.border.data(), kColours, pixel);
    }
  std::int64_t word = kRandAugment;
  rand_augment(a.rand_augment, [&] { return bits(word++); }, {H, W, a.fill, out});
  const std::int64_t top = below(kCutoutRow, H) - a.cutout / 2, left = below(kCutoutColumn, W) - a.cutout / 2;
  for (std::int64_t h = std::max<std::int64_t>(top, 0); h < std::min(top + a.cutout, H); ++h)  // [AUG-4]
    for (std::int64_t w = std::max<std::int64_t>(left, 0); w < std::min(left + a.cutout, W); ++w)
      std::copy_n(a.fill.data(), kColours, out + (h * W + w) * kColours);
}

}  // namespace foldgrad
