#include "train/tasks/classification/batches.h"

#include <algorithm>

#include "tests/engine/error_message.h"
#include "tests/harness/properties.h"
#include "tests/train/tasks/classification/images/counting_images.h"
#include "train/loop/permutation.h"

namespace foldgrad::testing {
namespace {

using Indices = std::vector<std::int64_t>;

const Augmentation kAll{.crop = 2, .flip = Flip::random, .cutout = 3, .fill = {1, 2, 3}};

Indices epoch_of(ImageBatches& batches) {
  Indices all;
  for (std::int64_t i = batches.per_epoch(); i > 0; --i) {
    const Indices rows = batches.next().indices;
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

TEST(ImageBatches, IMB_2_ValidationByHand) {
  const ImageSet images = counting_images(5, 4, 3, 3);
  ImageBatches batches(images, {4, 1, 2}, {.size = 2, .training = false, .augmentation = kAll});
  ASSERT_EQ(batches.per_epoch(), 2);
  const ImageBatch first = batches.next(), last = batches.next(), again = batches.next();
  EXPECT_EQ(first.indices, (Indices{4, 1}));
  EXPECT_EQ(first.labels.values<std::int64_t>(), (Indices{1, 1}));
  EXPECT_EQ(first.images.shape(), Shape({2, 4, 3, 3}));
  EXPECT_EQ(first.images.slice(0, 1).values<std::uint8_t>(), images.pixels.slice(4, 5).values<std::uint8_t>());
  EXPECT_EQ(first.images.slice(1, 2).values<std::uint8_t>(), images.pixels.slice(1, 2).values<std::uint8_t>());
  EXPECT_EQ(last.indices, (Indices{2}));
  EXPECT_EQ(last.images.shape(), Shape({1, 4, 3, 3}));
  EXPECT_EQ(last.labels.values<std::int64_t>(), (Indices{2}));
  EXPECT_EQ(again.indices, first.indices);
  EXPECT_EQ(again.images.values<std::uint8_t>(), first.images.values<std::uint8_t>());
  EXPECT_EQ(batches.cursor(), (DataCursor{1, 1}));
}

TEST(ImageBatches, IMB_1_RowsAreAugmentedByTheirIndexAndEpoch) {
  const ImageSet images = counting_images(20, 6, 5, 4);
  ImageBatches batches(images, counting(20), {.size = 6, .seed = 9, .augmentation = kAll});
  std::vector<std::uint8_t> want(images.image_bytes());
  for (std::int64_t b = 0; b < 2 * batches.per_epoch(); ++b) {
    const ImageBatch batch = batches.next();
    ASSERT_EQ(batch.images.shape(), Shape({6, 6, 5, 3}));
    for (std::int64_t row = 0; row < 6; ++row) {
      const std::int64_t i = batch.indices[row];
      augment(kAll, images, i, 9, b / batches.per_epoch(), want.data());
      EXPECT_EQ(batch.images.slice(row, row + 1).values<std::uint8_t>(), want);
      EXPECT_EQ(batch.labels.values<std::int64_t>()[row], images.label(i));
    }
  }
}

RC_GTEST_PROP(ImageBatches, IMB_1_IMB_2_NoImageTwiceInAnEpochAndFewerThanABatchLeftOut, ()) {
  const std::int64_t count = *rc::gen::inRange<std::int64_t>(1, 40);
  const ImageSet images = counting_images(3 * count, 1, 1, 2);
  Indices indices;
  for (std::int64_t i = 0; i < count; ++i) indices.push_back(3 * i + 1);
  ImageBatchOptions options;
  options.training = *rc::gen::arbitrary<bool>();
  options.size = *rc::gen::inRange<std::int64_t>(1, (options.training ? count : 60) + 1);
  options.seed = *rc::gen::arbitrary<std::uint64_t>();
  ImageBatches batches(images, indices, options);
  for (int epoch = 0; epoch < 2; ++epoch) {
    Indices all = epoch_of(batches);
    const std::int64_t used = options.training ? count / options.size * options.size : count;
    RC_ASSERT(std::int64_t(all.size()) == used);
    RC_ASSERT(options.training || std::ranges::is_sorted(all));
    std::ranges::sort(all);
    RC_ASSERT(std::ranges::adjacent_find(all) == all.end());
    RC_ASSERT(std::ranges::includes(indices, all));
  }
}

TEST(ImageBatches, IMB_1_OrderFollowsSeedAndEpoch) {
  const ImageSet images = counting_images(50, 1, 1, 2);
  const auto batches = [&](std::uint64_t seed) {
    return ImageBatches(images, counting(50), {.size = 10, .seed = seed});
  };
  ImageBatches a = batches(3), b = batches(3), c = batches(4);
  const Indices a0 = epoch_of(a), a1 = epoch_of(a);
  EXPECT_EQ(a0, epoch_of(b));
  EXPECT_EQ(a1, epoch_of(b));
  EXPECT_NE(a0, a1);
  EXPECT_NE(a0, epoch_of(c));
}

TEST(ImageBatches, WhatIsHeldOutIsTheEndOfAPermutation) {
  const HoldOut split = hold_out(100, 30, 7);
  EXPECT_EQ(split.valid.size(), 30u);
  EXPECT_TRUE(std::ranges::is_sorted(split.train));
  EXPECT_TRUE(std::ranges::is_sorted(split.valid));
  Indices all = split.train;
  all.insert(all.end(), split.valid.begin(), split.valid.end());
  std::ranges::sort(all);
  EXPECT_EQ(all, counting(100));
  // A smaller held-out part is the end of the same permutation.
  const HoldOut fewer = hold_out(100, 10, 7);
  EXPECT_TRUE(std::ranges::includes(split.valid, fewer.valid));
  EXPECT_NE(split.valid, hold_out(100, 30, 8).valid);
}

TEST(ImageBatches, ErrorsNameTheNumbers) {
  const ImageSet images = counting_images(5, 1, 1, 2);
  const auto error = [&](Indices indices, const ImageBatchOptions& options) {
    return message<std::invalid_argument>([&] { ImageBatches(images, indices, options); });
  };
  EXPECT_EQ(error({}, {}), "image batches: there must be at least one image, got 0");
  EXPECT_EQ(error({0, 5}, {}), "image batches: an index must be in [0, 5), got 5");
  EXPECT_EQ(error({-1}, {}), "image batches: an index must be in [0, 5), got -1");
  EXPECT_EQ(error({0}, {.size = 0}), "image batches: a batch must have at least 1 image, got 0");
  EXPECT_EQ(error({0, 1}, {.size = 3}), "image batches: training needs 3 images for a batch, got 2");
  EXPECT_EQ(error({0, 1}, {.size = 3, .training = false}), "no error");
  EXPECT_EQ(message<std::invalid_argument>([&] { hold_out(5, 5, 1); }),
            "image batches: of 5 images, 1 to 4 can be held out, got 5");
  EXPECT_EQ(message<std::invalid_argument>([&] { hold_out(5, 0, 1); }),
            "image batches: of 5 images, 1 to 4 can be held out, got 0");
}

}  // namespace
}  // namespace foldgrad::testing
