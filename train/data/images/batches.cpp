#include "train/data/images/batches.h"

#include <algorithm>

#include "engine/check.h"
#include "train/data/permutation.h"

namespace foldgrad {
namespace {

// Streams of random numbers: one for the order of images, whose step is the epoch, one for what is held out.
constexpr std::uint32_t kOrderStream = 0x696d6167, kHoldOutStream = 0x686f6c64;  // "imag", "hold"

}  // namespace

ImageBatches::ImageBatches(ImageSet images, std::vector<std::int64_t> indices, ImageBatchOptions options)
    : images_(std::move(images)), indices_(std::move(indices)), options_(options) {
  check(images_);
  FOLDGRAD_CHECK(!indices_.empty(), "image batches: there must be at least one image, got 0");
  for (const std::int64_t i : indices_)
    FOLDGRAD_CHECK(i >= 0 && i < images_.size(), "image batches: an index must be in [0, {}), got {}", images_.size(),
                   i);
  FOLDGRAD_CHECK(options_.size >= 1, "image batches: a batch must have at least 1 image, got {}", options_.size);
  FOLDGRAD_CHECK(per_epoch() >= 1, "image batches: to train on, there must be {} images for a batch, got {}",
                 options_.size, indices_.size());
  order_images();
}

ImageBatches::ImageBatches(ImageSet images, ImageBatchOptions options)
    : ImageBatches(images, counting(images.labels.defined() ? images.size() : 0), options) {}

std::int64_t ImageBatches::per_epoch() const {
  const std::int64_t images = std::int64_t(indices_.size());
  return (options_.training ? images : images + options_.size - 1) / options_.size;
}

void ImageBatches::order_images() {
  order_ = indices_;
  if (!options_.training) return;
  const std::int64_t images = std::int64_t(indices_.size());
  const Random random{.seed = options_.seed, .stream = kOrderStream, .step = std::uint32_t(cursor_.epoch)};
  std::ranges::transform(permutation(images, random), order_.begin(),
                         [this](std::int64_t place) { return indices_[place]; });  // [IMB-1]
}

std::vector<std::int64_t> ImageBatches::rows() const {
  const std::int64_t begin = cursor_.batch * options_.size;
  const std::int64_t end = std::min(begin + options_.size, std::int64_t(order_.size()));  // [IMB-2]
  return {order_.begin() + begin, order_.begin() + end};
}

ImageBatch ImageBatches::make(std::vector<std::int64_t> rows, std::int64_t epoch) const {
  const std::int64_t count = std::int64_t(rows.size());
  ImageBatch batch;
  batch.images = Tensor::empty({count, images_.height(), images_.width(), kColours}, DType::u8);
  batch.labels = Tensor::empty({count}, DType::i64);
  std::uint8_t* out = batch.images.data<std::uint8_t>();
  for (std::int64_t row = 0; row < count; ++row, out += images_.image_bytes()) {
    const std::int64_t i = rows[row];
    batch.labels.data<std::int64_t>()[row] = images_.label(i);
    if (options_.training)
      augment(options_.augmentation, images_, i, options_.seed, epoch, out);
    else
      std::copy_n(images_.image(i), images_.image_bytes(), out);
  }
  batch.indices = std::move(rows);
  return batch;
}

ImageBatch ImageBatches::next() {
  ImageBatch batch = ahead_.valid() ? ahead_.get() : make(rows(), cursor_.epoch);
  if (++cursor_.batch == per_epoch()) {
    cursor_ = {cursor_.epoch + 1, 0};
    order_images();
  }
  if (options_.prefetch)
    ahead_ = std::async(std::launch::async, [this, rows = rows(), epoch = cursor_.epoch] { return make(rows, epoch); });
  return batch;
}

void ImageBatches::seek(DataCursor cursor) {
  FOLDGRAD_CHECK(
      cursor.epoch >= 0 && cursor.batch >= 0 && cursor.batch < per_epoch(),
      "image batches: a cursor must be of epoch 0 or later and of a batch in [0, {}), got epoch {}, batch {}",
      per_epoch(), cursor.epoch, cursor.batch);
  ahead_ = {};
  cursor_ = cursor;
  order_images();
}

HoldOut hold_out(std::int64_t images, std::int64_t valid, std::uint64_t seed) {
  FOLDGRAD_CHECK(valid >= 1 && valid < images, "image batches: of {} images 1 to {} can be held out, got {}", images,
                 images - 1, valid);
  const std::vector<std::int64_t> order = permutation(images, {.seed = seed, .stream = kHoldOutStream});
  HoldOut split{{order.begin(), order.end() - valid}, {order.end() - valid, order.end()}};
  std::ranges::sort(split.train);
  std::ranges::sort(split.valid);
  return split;
}

}  // namespace foldgrad
