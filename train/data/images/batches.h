// Images in batches, with a cursor in their sequence.
//
//   [IMB-1]  To train: every epoch goes through the images in an order drawn from seed and epoch, and each image is
//            augmented by seed, epoch and its index. What remains at the end of an epoch and fills no batch is dropped.
//   [IMB-2]  Otherwise: the images in their order and as they are; the last batch has what remains.
#pragma once
#include <vector>

#include "train/data/images/augmentation.h"
#include "train/data/images/set.h"
#include "train/data/prefetched.h"

namespace foldgrad {

struct ImageBatchOptions {
  std::int64_t size = 128;  // images
  std::uint64_t seed = 1;
  bool training = true;
  Augmentation augmentation = {};  // in training only
  bool prefetch = false;
};

struct ImageBatch {
  std::vector<std::int64_t> indices;  // in the set, row by row
  Tensor images;                      // u8 [B, H, W, 3], on the CPU
  Tensor labels;                      // i64 [B], on the CPU
};

class ImageBatches : public Prefetched<ImageBatch> {
 public:
  // Takes the images of the set that `indices` names. Throws std::invalid_argument for what check() refuses,
  // no index or one outside, a size below 1 and, in training, for a size above the number of images.
  ImageBatches(const ImageSet& images, const std::vector<std::int64_t>& indices, const ImageBatchOptions& options);
};

// The images to train on, and those held out from training, to validate on. Both are sorted.
struct HoldOut {
  std::vector<std::int64_t> train, valid;
};
// Holds out the last `valid` of a permutation that the seed gives. Throws std::invalid_argument unless there are images
// on either side.
HoldOut hold_out(std::int64_t images, std::int64_t valid, std::uint64_t seed);

}  // namespace foldgrad
