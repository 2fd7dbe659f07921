#include "train/tasks/classification/images/shapes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "engine/check.h"
#include "engine/cpu/threads.h"
#include "engine/philox.h"

namespace foldgrad::shapes {
namespace {

// The difficulty of the task; docs/data.md lists the accuracies of several models.
constexpr float kSmallest = 13, kLargest = 24;      // pixels, across
constexpr float kContrast = 100;                    // the least difference in brightness
constexpr float kThinStripe = 1, kThickStripe = 2;  // pixels
constexpr float kTexture = 10, kNoise = 10;         // the largest change of a byte

constexpr std::uint32_t kStream = 0x73686170;   // "shap"; the part number is added
constexpr std::uint64_t kBlocksOfImage = 1024;  // blocks of random numbers; an image needs about 250

// The random numbers of one image, in sequence.
class Draws {
 public:
  Draws(Random random, std::uint64_t block) : random_(random), block_(block) {}

  std::uint8_t byte() {
    if (used_ == sizeof words_) {
      words_ = random_.block(block_++);
      used_ = 0;
    }
    const std::uint32_t word = words_.word[used_ / 4];
    return std::uint8_t(word >> used_++ % 4 * 8);
  }
  // Draws a number in [low, high) from 24 bits.
  float between(float low, float high) {
    const int bits = byte() | byte() << 8 | byte() << 16;
    return low + (high - low) * float(bits) / 16777216;
  }

 private:
  const Random random_;
  std::uint64_t block_;
  PhiloxWords words_{};
  std::size_t used_ = sizeof words_;
};

using Colour = std::array<float, kColours>;

Colour colour(Draws& draws) {
  Colour c;
  for (float& part : c) part = draws.byte();
  return c;
}

float brightness(const Colour& c) { return (c[0] + c[1] + c[2]) / kColours; }

// Replaces std::lerp, which is exact at both ends but slow.
float mix(float from, float to, float share) { return from + share * (to - from); }

// Value noise: random numbers at the corners of squares of 4 x 4 pixels, interpolated bilinearly in between.
class Texture {
 public:
  explicit Texture(Draws& draws) {
    const float amplitude = draws.between(0, kTexture);
    for (float& corner : corners_) corner = amplitude * (draws.byte() / 127.5f - 1);
  }
  float operator()(std::int64_t x, std::int64_t y) const {
    const float* corner = corners_ + y / kCell * kCorners + x / kCell;
    const float right = float(x % kCell) / kCell, down = float(y % kCell) / kCell;
    return mix(mix(corner[0], corner[1], right), mix(corner[kCorners], corner[kCorners + 1], right), down);
  }

 private:
  static constexpr std::int64_t kCell = 4, kCorners = kSide / kCell + 1;
  float corners_[kCorners * kCorners];
};

// A point, and an angle by which the plane is rotated around it.
struct Pose {
  float x, y, cosine, sine;

  Pose(float x, float y, float angle) : x(x), y(y), cosine(std::cos(angle)), sine(std::sin(angle)) {}
  // Return the coordinates of a pixel's centre in the rotated plane.
  float across(std::int64_t column, std::int64_t row) const {
    return cosine * (float(column) + 0.5f - x) + sine * (float(row) + 0.5f - y);
  }
  float along(std::int64_t column, std::int64_t row) const {
    return cosine * (float(row) + 0.5f - y) - sine * (float(column) + 0.5f - x);
  }
};

// Returns the fraction of a pixel inside an outline, given the distance of its centre from the outline in pixels.
float coverage(float pixels) { return std::clamp(0.5f - pixels, 0.0f, 1.0f); }

// Replaces std::hypot, which guards against overflow but is slow.
float length(float x, float y) { return std::sqrt(x * x + y * y); }

float box(float x, float y, float half_width, float half_height) {
  return std::max(std::abs(x) - half_width, std::abs(y) - half_height);
}

float disc(float x, float y) { return length(x, y) - 0.95f; }
float ring(float x, float y) { return std::abs(length(x, y) - 0.75f) - 0.22f; }
float square(float x, float y) { return box(x, y, 0.72f, 0.72f); }
float frame(float x, float y) { return std::abs(box(x, y, 0.55f, 0.55f)) - 0.17f; }
float triangle(float x, float y) {
  return std::max(y, 0.8660254f * std::abs(x) - 0.5f * y) - 0.5f;  // the sides' normals point to 90, -30, 210 degrees
}
float cross(float x, float y) { return std::min(box(x, y, 0.95f, 0.27f), box(x, y, 0.27f, 0.95f)); }
// Takes the second largest distance to the five lines of a pentagram: a point of the star is inside at least four.
float star(float x, float y) {
  constexpr float kNormals[5][2] = {{0, 1},
                                    {0.9510565f, 0.3090170f},
                                    {0.5877853f, -0.8090170f},
                                    {-0.5877853f, -0.8090170f},
                                    {-0.9510565f, 0.3090170f}};
  float largest = -2, second = -2;
  for (const auto& normal : kNormals) {
    const float d = normal[0] * x + normal[1] * y;
    second = std::max(second, std::min(largest, d));
    largest = std::max(largest, d);
  }
  return second - 0.3090170f;
}
float bars(float x, float y) { return box(x, std::abs(y) - 0.42f, 0.8f, 0.2f); }
float letter_l(float x, float y) { return std::min(box(x + 0.38f, y, 0.22f, 0.8f), box(x, y - 0.58f, 0.6f, 0.22f)); }
float crescent(float x, float y) { return std::max(length(x, y) - 0.95f, 0.75f - length(x - 0.45f, y)); }

constexpr struct {
  const char* name;
  float (*distance)(float x, float y);
} kShapes[kClasses] = {{"disc", disc},   {"ring", ring}, {"square", square}, {"frame", frame}, {"triangle", triangle},
                       {"cross", cross}, {"star", star}, {"bars", bars},     {"L", letter_l},  {"crescent", crescent}};

}  // namespace

const std::vector<std::string>& classes() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& shape : kShapes) all.push_back(shape.name);
    return all;
  }();
  return names;
}

float distance(std::int64_t shape, float x, float y) { return kShapes[shape].distance(x, y); }

void draw(ImagePart part, std::int64_t i, std::uint64_t seed, std::uint8_t* out) {
  constexpr float kTurn = 2 * std::numbers::pi_v<float>;
  Draws draws({.seed = seed, .stream = kStream + std::uint32_t(part)}, std::uint64_t(i) * kBlocksOfImage);
  const float radius = draws.between(kSmallest, kLargest) / 2;
  const auto place = [&] { return draws.between(radius, kSide - radius); };
  const float x = place(), y = place();
  const Pose pose(x, y, draws.between(0, kTurn));
  const float turn = draws.between(0, kTurn), off = draws.between(-radius, radius);
  const Pose stripe(x + off * std::cos(turn), y + off * std::sin(turn), turn);
  const float half_stripe = draws.between(kThinStripe, kThickStripe) / 2;
  const Colour stripe_colour = colour(draws);
  Colour shape_colour = colour(draws), back_colour = colour(draws);
  while (brightness(shape_colour) < brightness(back_colour) + kContrast) {
    shape_colour = colour(draws);
    back_colour = colour(draws);
  }
  const Texture shape_texture(draws), back_texture(draws);

  for (std::int64_t row = 0; row < kSide; ++row)
    for (std::int64_t column = 0; column < kSide; ++column) {
      const float from_outline =
          radius * distance(i % kClasses, pose.across(column, row) / radius, pose.along(column, row) / radius);
      const float in_shape = coverage(from_outline);
      const float in_stripe = coverage(std::abs(stripe.across(column, row)) - half_stripe);
      const float shape_light = shape_texture(column, row), back_light = back_texture(column, row);
      for (std::size_t c = 0; c < kColours; ++c) {
        const float surface = mix(back_colour[c] + back_light, shape_colour[c] + shape_light, in_shape);
        const float noise = kNoise * (draws.byte() / 127.5f - 1);
        const float value = mix(surface, stripe_colour[c], in_stripe) + noise;
        *out++ = std::uint8_t(std::clamp(value + 0.5f, 0.0f, 255.0f));
      }
    }
}

ImageSet sample(ImagePart part, std::int64_t count, std::uint64_t seed) {
  FOLDGRAD_CHECK(count >= 1 && count <= kMostImages, "shapes: a sample must have 1 to {} images, got {}", kMostImages,
                 count);
  ImageSet images{Tensor::empty({count, kSide, kSide, kColours}, DType::u8), Tensor::empty({count}, DType::i64),
                  classes()};
  std::uint8_t* pixels = images.pixels.data<std::uint8_t>();
  std::int64_t* labels = images.labels.data<std::int64_t>();
  parallel(count, [&](std::int64_t i) {
    labels[i] = i % kClasses;
    draw(part, i, seed, pixels + i * kSide * kSide * kColours);
  });
  return images;
}

}  // namespace foldgrad::shapes
