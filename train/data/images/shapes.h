// The embedded task: which of ten shapes is in the image? Made by rule, so that a model can be trained and scored with
// no file at all.
//
// A shape of 13 to 24 pixels lies anywhere in 32 x 32, turned by any angle, lighter than the background; both have
// any colour and a texture of value noise. A stripe of a third colour crosses it, and every byte is noisy. Colours are
// drawn alike for all classes.
#pragma once
#include "train/data/images/set.h"

namespace foldgrad::shapes {

constexpr std::int64_t kSide = 32, kClasses = 10, kMostImages = 10'000'000;

// Returns disc, ring, square, frame, triangle, cross, star, bars, L, crescent.
const std::vector<std::string>& classes();

// Draws image i of a part, which has class i mod 10. Its 32 x 32 x 3 bytes, channels-last, depend on the arguments
// alone; the parts take different random numbers.
void draw(ImagePart part, std::int64_t i, std::uint64_t seed, std::uint8_t* out);

// Draws images 0 ... count - 1, on all threads. Throws std::invalid_argument unless count is in [1, kMostImages].
ImageSet sample(ImagePart part, std::int64_t count, std::uint64_t seed = 1);
// Numbers of images unless a configuration says otherwise.
constexpr std::int64_t kTrainImages = 50000, kTestImages = 10000;

// Returns how far (x, y) lies from the outline of a shape with a circle of radius 1 around it: negative within the
// shape. Beyond corners it is less than the distance, which sharpens them.
float distance(std::int64_t shape, float x, float y);

}  // namespace foldgrad::shapes
