#include "train/tasks/classification/batches.h"

#include <algorithm>

#include "engine/check.h"
#include "train/loop/permutation.h"

namespace foldgrad {
namespace {

// Streams of random numbers: one for the order of images, whose step is the epoch, and one for held-out images.
constexpr std::uint32_t kOrderStream = 0x696d6167, kHoldOutStream = 0x686f6c64;  // "imag", "hold"

std::int64_t batches_of(std::int64_t images, const ImageBatchOptions& options) {
  return (options.training ? images : images + options.size - 1) / options.size;
}

void check(const ImageSet& images, const std::vector<std::int64_t>& indices, const ImageBatchOptions& options) {
  check(images);
  FOLDGRAD_CHECK(!indices.empty(), "image batches: there must be at least one image, got 0");
  for (const std::int64_t i : indices)
    FOLDGRAD_CHECK(i >= 0 && i < images.size(), "image batches: an index must be in [0, {}), got {}", images.size(), i);
  FOLDGRAD_CHECK(options.size >= 1, "image batches: a batch must have at least 1 image, got {}", options.size);
  FOLDGRAD_CHECK(batches_of(std::int64_t(indices.size()), options) >= 1,
                 "image batches: training needs {} images for a batch, got {}", options.size, indices.size());
}

ImageBatch batch_of(const ImageSet& images, const std::vector<std::int64_t>& order, DataCursor at,
                    const ImageBatchOptions& options) {
  const std::int64_t begin = at.batch * options.size;
  const std::int64_t end = std::min(begin + options.size, std::int64_t(order.size()));  // [IMB-2]
  const std::int64_t count = end - begin;
  ImageBatch batch{.indices = {order.begin() + begin, order.begin() + end},
                   .images = Tensor::empty({count, images.height(), images.width(), kColours}, DType::u8),
                   .labels = Tensor::empty({count}, DType::i64)};
  std::uint8_t* out = batch.images.data<std::uint8_t>();
  for (std::int64_t row = 0; row < count; ++row, out += images.image_bytes()) {
    const std::int64_t i = batch.indices[row];
    batch.labels.data<std::int64_t>()[row] = images.label(i);
    if (options.training)
      augment(options.augmentation, images, i, options.seed, at.epoch, out);
    else
      std::copy_n(images.image(i), images.image_bytes(), out);
  }
  return batch;
}

Prefetched<ImageBatch>::Source source_of(const ImageSet& images, const std::vector<std::int64_t>& indices,
                                         const ImageBatchOptions& options) {
  check(images, indices, options);
  const auto order = [=](std::int64_t epoch) {
    if (!options.training) return indices;
    const Random random{.seed = options.seed, .stream = kOrderStream, .step = std::uint32_t(epoch)};
    std::vector<std::int64_t> order = permutation(std::int64_t(indices.size()), random);
    for (std::int64_t& place : order) place = indices[place];  // [IMB-1]
    return order;
  };
  return {.name = "image batches",
          .per_epoch = batches_of(std::int64_t(indices.size()), options),
          .order = order,
          .make = [=](const auto& order, DataCursor at) { return batch_of(images, order, at, options); },
          .prefetch = options.prefetch};
}

}  // namespace

ImageBatches::ImageBatches(const ImageSet& images, const std::vector<std::int64_t>& indices,
                           const ImageBatchOptions& options)
    : Prefetched(source_of(images, indices, options)) {}

HoldOut hold_out(std::int64_t images, std::int64_t valid, std::uint64_t seed) {
  FOLDGRAD_CHECK(valid >= 1 && valid < images, "image batches: of {} images, 1 to {} can be held out, got {}", images,
                 images - 1, valid);
  const std::vector<std::int64_t> order = permutation(images, {.seed = seed, .stream = kHoldOutStream});
  HoldOut split{{order.begin(), order.end() - valid}, {order.end() - valid, order.end()}};
  std::ranges::sort(split.train);
  std::ranges::sort(split.valid);
  return split;
}

}  // namespace foldgrad
