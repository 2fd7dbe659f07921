#include "train/data/images/batches.h"

#include <algorithm>

#include "engine/check.h"
#include "train/data/permutation.h"

namespace foldgrad {
namespace {

// Streams of random numbers: one for the order of images, whose step is the epoch, one for what is held out.
constexpr std::uint32_t kOrderStream = 0x696d6167, kHoldOutStream = 0x686f6c64;  // "imag", "hold"

std::int64_t batches_of(std::int64_t images, const ImageBatchOptions& options) {
  return (options.training ? images : images + options.size - 1) / options.size;
}

const ImageSet& checked(const ImageSet& images, const std::vector<std::int64_t>& indices,
                        const ImageBatchOptions& options) {
  check(images);
  FOLDGRAD_CHECK(!indices.empty(), "image batches: there must be at least one image, got 0");
  for (const std::int64_t i : indices)
    FOLDGRAD_CHECK(i >= 0 && i < images.size(), "image batches: an index must be in [0, {}), got {}", images.size(), i);
  FOLDGRAD_CHECK(options.size >= 1, "image batches: a batch must have at least 1 image, got {}", options.size);
  FOLDGRAD_CHECK(batches_of(std::int64_t(indices.size()), options) >= 1,
                 "image batches: to train on, there must be {} images for a batch, got {}", options.size,
                 indices.size());
  return images;
}

}  // namespace

ImageBatches::ImageBatches(ImageSet images, std::vector<std::int64_t> indices, ImageBatchOptions options)
    : images_(checked(images, indices, options)),
      indices_(std::move(indices)),
      options_(options),
      sequence_({.name = "image batches",
                 .per_epoch = per_epoch(),
                 .order = [this](std::int64_t epoch) { return order(epoch); },
                 .make = [this](const auto& order, DataCursor at) { return make(order, at); },
                 .prefetch = options.prefetch}) {}

ImageBatches::ImageBatches(ImageSet images, ImageBatchOptions options)
    : ImageBatches(images, counting(images.labels.defined() ? images.size() : 0), options) {}

std::int64_t ImageBatches::per_epoch() const { return batches_of(std::int64_t(indices_.size()), options_); }

std::vector<std::int64_t> ImageBatches::order(std::int64_t epoch) const {
  if (!options_.training) return indices_;
  const Random random{.seed = options_.seed, .stream = kOrderStream, .step = std::uint32_t(epoch)};
  std::vector<std::int64_t> order = permutation(std::int64_t(indices_.size()), random);
  for (std::int64_t& place : order) place = indices_[place];  // [IMB-1]
  return order;
}

ImageBatch ImageBatches::make(const std::vector<std::int64_t>& order, DataCursor at) const {
  const std::int64_t begin = at.batch * options_.size;
  const std::int64_t end = std::min(begin + options_.size, std::int64_t(order.size()));  // [IMB-2]
  std::vector<std::int64_t> rows(order.begin() + begin, order.begin() + end);
  const std::int64_t count = std::int64_t(rows.size());
  ImageBatch batch;
  batch.images = Tensor::empty({count, images_.height(), images_.width(), kColours}, DType::u8);
  batch.labels = Tensor::empty({count}, DType::i64);
  std::uint8_t* out = batch.images.data<std::uint8_t>();
  for (std::int64_t row = 0; row < count; ++row, out += images_.image_bytes()) {
    const std::int64_t i = rows[row];
    batch.labels.data<std::int64_t>()[row] = images_.label(i);
    if (options_.training)
      augment(options_.augmentation, images_, i, options_.seed, at.epoch, out);
    else
      std::copy_n(images_.image(i), images_.image_bytes(), out);
  }
  batch.indices = std::move(rows);
  return batch;
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
