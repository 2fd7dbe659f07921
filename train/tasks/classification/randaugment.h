// RandAugment (Cubuk et al., 2020): applies randomly drawn operations, all of the same magnitude, to each image.
// The operations are the identity and Pillow's, with the magnitudes of timm's increasing set (auto_augment.py in
// huggingface/pytorch-image-models). With M = magnitude / 10 and a drawn sign s:
//
//   [RND-1]  autocontrast: per channel, floor((x - least) 255 / (greatest - least))
//   [RND-2]  equalize: per channel, floor((q/2 + number of pixels below x) / q), q being a 255th of the pixels without
//            those of the greatest value, both rounded down
//   [RND-3]  invert: 255 - x.   posterize: x without its last min(7, 4 + floor(4 M)) bits.   solarize: 255 - x
//            if x >= 256 - floor(256 M)
//   [RND-4]  rotate by 30 s M degrees; shear_x, shear_y by 0.3 s M; translate_x, translate_y by 0.45 s M of the side:
//            y(p) = x(A p), bilinear between the centres of pixels, `fill` outside of the image
//   [RND-5]  colour, contrast, brightness, sharpness: z + f (x - z), rounded towards zero, with
//            f = max(0.1, 1 + 0.9 s M) and z the gray of each pixel, the mean gray, black, or the image smoothed except
//            at its border
#pragma once
#include <array>
#include <functional>

#include "train/tasks/classification/images/set.h"

namespace foldgrad {

// An image of bytes, [height, width, 3], changed in place.
struct Canvas {
  std::int64_t height, width;
  std::array<std::uint8_t, kColours> fill;
  std::uint8_t* pixels;

  std::int64_t bytes() const { return height * width * kColours; }
};

// An operation. It is drawn by its index in kPictureOps.
struct PictureOp {
  const char* name;
  // Changes the image by `m` in [-1, 1], which is s M above. Operations without a sign use the absolute value of `m`.
  void (*apply)(const Canvas& canvas, double m);
};
extern const std::array<PictureOp, 15> kPictureOps;

struct RandAugment {
  std::int64_t operations = 0;  // number of operations per image; 0 turns RandAugment off
  std::int64_t magnitude = 0;   // must be in [0, 10]
};

// Draws operations and applies them. draw() returns 32 random bits; every operation takes two calls.
void rand_augment(const RandAugment& options, const std::function<std::uint32_t()>& draw, const Canvas& canvas);

}  // namespace foldgrad
