// Batches of images, with a cursor in their sequence.
//
//   [IMB-1]  For training: every epoch goes through the images in an order drawn from seed and epoch, and each image's
//            augmentation depends only on seed, epoch and its index. The last batch is dropped if it is incomplete.
//   [IMB-2]  Otherwise images come in order and unchanged. The last batch has the remaining images.
#pragma once
#include <vector>

#include "train/loop/prefetched.h"
#include "train/tasks/classification/augmentation.h"
#include "train/tasks/classification/images/set.h"

namespace foldgrad {

struct ImageBatchOptions {
  std::int64_t size = 128;  // number of images
  std::uint64_t seed = 1;
  bool training = true;
  Augmentation augmentation = {};  // used only in training
  bool prefetch = false;
};

struct ImageBatch {
  std::vector<std::int64_t> indices;  // index in the image set of each row
  Tensor images;                      // u8 [B, H, W, 3], on the CPU
  Tensor labels;                      // i64 [B], on the CPU
};

class ImageBatches : public Prefetched<ImageBatch> {
 public:
  // Uses the images with these indices. Throws std::invalid_argument if check() does, if there are no indices, if an
  // index is out of bounds, and if the batch size is below 1 or, in training, above the number of images.
  ImageBatches(const ImageSet& images, const std::vector<std::int64_t>& indices, const ImageBatchOptions& options);
};

// The indices of training images and of images held out for validation, both sorted.
struct HoldOut {
  std::vector<std::int64_t> train, valid;
};
// Shuffles the images by `seed` and holds out the last `valid`. Throws std::invalid_argument if a part would be empty.
HoldOut hold_out(std::int64_t images, std::int64_t valid, std::uint64_t seed);

}  // namespace foldgrad
