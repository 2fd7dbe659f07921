// Random changes of training images. The random numbers of image i in epoch e are elements 64 i, 64 i + 1, ... of
// Random{seed, stream, e}, so the changed image depends only on seed, epoch and i. It does not depend on threads,
// batches, the order of images, or where a run was resumed.
//
//   [AUG-1]  Crop: y_hw = x_(h + a - p)(w + b - p) with a, b drawn from 0 ... 2p; outside the image, `border`.
//   [AUG-2]  Flip: y_hw = x_h(W - 1 - w) for half of all pairs (epoch, i).
//   [AUG-3]  Alternating flip: image i is flipped if bit(seed, i) + e is odd. Every second epoch shows the mirror
//            image (Jordan, 2024, 94% on CIFAR-10 in 3.29 seconds, section 3.6).
//   [AUG-4]  Cutout: a square of s x s pixels around a drawn pixel is `fill`, cut off at the image's borders
//            (DeVries, Taylor, 2017). Its rows are c - s / 2 to c - s / 2 + s - 1, where c is the drawn pixel's row.
//
// The changes are applied in this order, with RandAugment (randaugment.h) before cutout.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "train/tasks/classification/randaugment.h"

namespace foldgrad {

enum class Flip { never, random, alternating };

struct Augmentation {
  std::int64_t crop = 0;                           // p; 0 turns cropping off
  std::array<std::uint8_t, kColours> border = {};  // black, like the border of torchvision's RandomCrop
  Flip flip = Flip::never;
  RandAugment rand_augment = {};
  std::int64_t cutout = 0;  // s; 0 turns cutout off
  // The colour of cutout's holes and of areas that RandAugment uncovers. The mean pixel becomes zero when images are
  // normalized: the authors of cutout fill normalized images with zero, and timm also fills with the mean.
  std::array<std::uint8_t, kColours> fill = {};

  bool changes() const { return crop > 0 || flip != Flip::never || rand_augment.operations > 0 || cutout > 0; }
};

// Parses the names that a configuration gives: "crop4" (or another number), "flip", "flip_alternating",
// "randaugment2m9" (two operations of magnitude 9; 1 to 8 operations of magnitude 0 to 10 are allowed), "cutout8".
// Throws std::invalid_argument for any other name, and for two names of the same kind.
Augmentation augmentation(const std::vector<std::string>& names);

// Augments image i of the set, and writes the result to `out`, which has image_bytes() bytes outside of the set.
void augment(const Augmentation& augmentation, const ImageSet& images, std::int64_t i, std::uint64_t seed,
             std::int64_t epoch, std::uint8_t* out);

}  // namespace foldgrad
