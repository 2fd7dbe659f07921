// Images in batches, with a cursor in their sequence.
//
//   [IMB-1]  To train: every epoch goes through the images in an order drawn from seed and epoch, and each image is
//            augmented by seed, epoch and its index. What remains at the end of an epoch and fills no batch is dropped.
//   [IMB-2]  Otherwise: the images in their order and as they are; the last batch has what remains.
#pragma once
#include <future>
#include <vector>

#include "train/data/cursor.h"
#include "train/data/images/augmentation.h"
#include "train/data/images/set.h"

namespace foldgrad {

struct ImageBatchOptions {
  std::int64_t size = 128;  // images
  std::uint64_t seed = 1;
  bool training = true;
  Augmentation augmentation = {};  // in training only
  bool prefetch = false;           // a thread makes the next batch meanwhile; the batches are the same
};

struct ImageBatch {
  std::vector<std::int64_t> indices;  // in the set, row by row
  Tensor images;                      // u8 [B, H, W, 3], on the CPU
  Tensor labels;                      // i64 [B], on the CPU
};

class ImageBatches {
 public:
  // Takes the images of the set that `indices` names, or all. Throws std::invalid_argument for what check() refuses,
  // no index or one outside, a size below 1 and, in training, for a size above the number of images.
  ImageBatches(ImageSet images, std::vector<std::int64_t> indices, ImageBatchOptions options);
  ImageBatches(ImageSet images, ImageBatchOptions options);
  ImageBatches(const ImageBatches&) = delete;
  ImageBatches& operator=(const ImageBatches&) = delete;

  // The batch at the cursor, which moves on: after the last batch of an epoch to the first of the next.
  ImageBatch next();

  DataCursor cursor() const { return cursor_; }
  // Batches then come as they came after cursor() gave this. Throws std::invalid_argument for a cursor outside.
  void seek(DataCursor cursor);

  std::int64_t per_epoch() const;  // batches
  const ImageSet& images() const { return images_; }

 private:
  void order_images();                     // of the cursor's epoch
  std::vector<std::int64_t> rows() const;  // indices of the batch at the cursor
  ImageBatch make(std::vector<std::int64_t> rows, std::int64_t epoch) const;

  ImageSet images_;
  std::vector<std::int64_t> indices_, order_;
  ImageBatchOptions options_;
  DataCursor cursor_;
  std::future<ImageBatch> ahead_;  // the batch at the cursor; last, since its thread reads the rest
};

// A part of the images is held out from training, to validate on: the last `valid` of a permutation that the seed
// gives. Both are sorted. Throws std::invalid_argument unless there are images on either side.
struct HoldOut {
  std::vector<std::int64_t> train, valid;
};
HoldOut hold_out(std::int64_t images, std::int64_t valid, std::uint64_t seed);

}  // namespace foldgrad
