// Keys of classification: images and batches.
#pragma once
#include "train/config/section.h"

namespace foldgrad {

enum class ImageTask { cifar10, cifar100, folder, shapes, tinyimagenet };
constexpr auto names_of(ImageTask) { return std::array{"cifar10", "cifar100", "folder", "shapes", "tinyimagenet"}; }

// The pixels that a crop shows where it extends beyond the image.
enum class CropFill { mean, zero };
constexpr auto names_of(CropFill) { return std::array{"mean", "zero"}; }

struct ImageConfig {
  ImageTask task = ImageTask::cifar10;
  std::string directory, augment;
  CropFill fill = CropFill::mean;
  std::int64_t image_size = 32, train_images = 0, valid_images = 0;
  std::int64_t batch = 128, mix_off_epoch = 0;
  double mixup = 0, cutmix = 0;

  void validate() const;  // throws ConfigError
  bool operator==(const ImageConfig&) const = default;
};

void visit_keys(KeysOf<ImageConfig> auto& i, const auto& v) {
  const auto data = keys_in("data", v), train = keys_in("train", v);
  data(i.task, "task", "",
       "Source of the images: CIFAR files, a folder, drawn shapes, or a folder in TinyImageNet's layout");
  data(i.directory, "directory", "",
       "Directory containing the files, absolute or relative to --data-dir; if empty, the directory's name in the "
       "archive");
  data(i.image_size, "image_size", "pixels", "Side length to which images are scaled (folder, tinyimagenet)",
       within(1, 4096));
  data(i.train_images, "train_images", "images", "Number of training images to use; 0 means all (50,000 for shapes)",
       at_least(0));
  data(i.valid_images, "valid_images", "images",
       "Number of training images to hold out for validation (shapes draws these in addition); if 0, validation uses "
       "the test images",
       at_least(0));
  data(i.augment, "augment", "",
       "Random augmentations of training images, separated by spaces: crop4 (4 pixels), flip or flip_alternating, "
       "randaugment2m9 (2 operations of magnitude 9), cutout8 (8 pixels)");
  keys_in("data", v, newer)(i.fill, "fill", "",
                            "Fill color of crops outside the image: the mean of the training images, or zero (black, "
                            "as in torchvision's RandomCrop)");
  train(i.batch, "batch", "images", "Number of images per batch", at_least(1));
  train(i.mixup, "mixup", "", "Parameter a of mixup's distribution Beta(a, a); 0 turns mixup off", at_least(0));
  train(i.cutmix, "cutmix", "", "Parameter a of CutMix's distribution Beta(a, a); 0 turns CutMix off", at_least(0));
  train(i.mix_off_epoch, "mix_off_epoch", "epochs", "Number of initial epochs that use mixup or CutMix; 0 means all",
        at_least(0));
}

}  // namespace foldgrad
