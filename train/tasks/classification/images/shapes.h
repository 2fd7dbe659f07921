// The built-in task is to say which of ten shapes an image shows. The images are generated, so a model can be trained
// and scored without any files.
//
// An image of 32 x 32 pixels shows one shape of 13 to 24 pixels at a random position and angle. The shape is lighter
// than the background. Both have a random colour and a texture of value noise. A stripe of a third colour crosses the
// shape, and every byte is noisy. All classes have the same distribution of colours.
#pragma once
#include "train/tasks/classification/images/set.h"

namespace foldgrad::shapes {

constexpr std::int64_t kSide = 32, kClasses = 10, kMostImages = 10'000'000;

// Returns the names: disc, ring, square, frame, triangle, cross, star, bars, L, crescent.
const std::vector<std::string>& classes();

// Draws image i of a part, which has class i mod 10. Its 32 x 32 x 3 bytes, channels-last, depend only on the
// arguments; each part has its own random numbers.
void draw(ImagePart part, std::int64_t i, std::uint64_t seed, std::uint8_t* out);

// Draws images 0 ... count - 1, on all threads. Throws std::invalid_argument unless count is in [1, kMostImages].
ImageSet sample(ImagePart part, std::int64_t count, std::uint64_t seed = 1);
// Default numbers of images.
constexpr std::int64_t kTrainImages = 50000, kTestImages = 10000;

// Returns the distance of (x, y) from the outline of a shape that fits into a circle of radius 1. It is negative inside
// the shape. Beyond a corner, the value is less than the true distance, which makes the corner sharp.
float distance(std::int64_t shape, float x, float y);

}  // namespace foldgrad::shapes
