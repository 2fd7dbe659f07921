#include "train/tasks/classification_exhibits.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/train/data/images/counting_images.h"
#include "train/data/images/picture.h"
#include "train/system/base64.h"

namespace foldgrad::testing {
namespace {

using nlohmann::ordered_json;

std::string png_text(const Tensor& images, std::int64_t i) {
  const std::vector<std::uint8_t> pixels = images.slice(i, i + 1).values<std::uint8_t>();
  return base64(encode_png({images.shape()[1], images.shape()[2], pixels}));
}

// The third is right; of the others the fourth is worst, and the first better than the second.
Tensor logits() { return Tensor::of<double>({4, 3}, {0, 1, 0, 5, 0, 0, 0, 0, 9, -9, 0, 9}); }

class Exhibits : public ::testing::Test {
 protected:
  const std::vector<std::string> classes_{"cat", "dog", "eel"};
  const ImageSet images_ = counting_images(4, 2, 3, 3);  // labels 0, 1, 2, 0
  const Tensor logits_ = logits();
};

TEST_F(Exhibits, TheWorstMistakesComeFirst) {
  WorstMistakes all, two(2);
  for (WorstMistakes* mistakes : {&all, &two}) {
    mistakes->add(logits_.slice(0, 1).to(DType::f32), images_.pixels.slice(0, 1), images_.labels.slice(0, 1));
    mistakes->add(logits_.slice(1, 4), images_.pixels.slice(1, 4), images_.labels.slice(1, 4));
  }
  ASSERT_EQ(all.all().size(), 3u);
  ASSERT_EQ(two.all().size(), 2u);
  const int order[] = {3, 1, 0}, predicted[] = {2, 0, 1};
  const double losses[] = {std::log(std::exp(-9) + 1 + std::exp(9)) + 9, std::log(std::exp(5) + 2),
                           std::log(std::exp(1) + 2)};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto& m = all.all()[i];
    EXPECT_EQ(m.label, images_.label(order[i]));
    EXPECT_EQ(m.predicted, predicted[i]);
    EXPECT_NEAR(m.loss, losses[i], 1e-12);
    EXPECT_EQ(m.image.values<std::uint8_t>(), images_.pixels.slice(order[i], order[i] + 1).values<std::uint8_t>());
  }
  EXPECT_NEAR(all.all()[2].certainty, std::exp(1) / (std::exp(1) + 2), 1e-12);
  EXPECT_EQ(two.all()[1].loss, all.all()[1].loss);
}

TEST_F(Exhibits, WhatIsNotANumberIsWorst) {
  WorstMistakes mistakes;
  mistakes.add(Tensor::of<double>({2, 3}, {0, 1, 0, 5, NAN, 0}), images_.pixels.slice(0, 2),
               images_.labels.slice(0, 2));
  ASSERT_EQ(mistakes.all().size(), 2u);
  EXPECT_EQ(mistakes.all()[0].label, 1);
  EXPECT_EQ(mistakes.all()[0].loss, INFINITY);
}

TEST_F(Exhibits, ConfusionsAreCounted) {
  ClassificationScores scores(classes_);
  scores.add(logits_, images_.labels);
  EXPECT_EQ(confusion_exhibit(scores, classes_).at("matrix"),
            (ordered_json{{"names", classes_}, {"counts", {{0, 1, 1}, {1, 0, 0}, {0, 0, 1}}}}));
  const std::vector<std::string> many(101, "one of many");
  EXPECT_TRUE(confusion_exhibit(ClassificationScores(many), many).is_null());
}

TEST_F(Exhibits, MistakesArePictures) {
  WorstMistakes mistakes;
  mistakes.add(logits_, images_.pixels, images_.labels);
  const ordered_json exhibit = mistakes_exhibit(mistakes, classes_);
  if (!png_available()) {
    EXPECT_EQ(exhibit.at("note"), "No pictures: foldgrad was built without libpng.");
    EXPECT_TRUE(exhibit.at("pictures").empty());
    return;
  }
  ASSERT_EQ(exhibit.at("pictures").size(), 3u);
  EXPECT_EQ(exhibit.at("pictures")[0],
            (ordered_json{{"caption", "cat 0.0 %, not eel 100.0 %"}, {"png", png_text(images_.pixels, 3)}}));
  EXPECT_EQ(exhibit.at("pictures")[2].at("caption"), "cat 21.2 %, not dog 57.6 %");  // 1 and e of e + 2
}

TEST_F(Exhibits, TrainingImagesAreShownAsTheyAreLearntFrom) {
  if (!png_available()) GTEST_SKIP() << "this build lacks libpng";
  const Augmentation flips{.flip = Flip::alternating};
  const ordered_json exhibit = augmented_exhibit(flips, images_, {2, 0}, 1);
  ASSERT_EQ(exhibit.at("columns"), 8);
  ASSERT_EQ(exhibit.at("pictures").size(), 16u);
  for (std::size_t row = 0; row < 2; ++row) {
    const std::int64_t i = row == 0 ? 2 : 0;
    const auto picture = [&](std::size_t column) { return exhibit.at("pictures")[row * 8 + column]; };
    EXPECT_EQ(picture(0), (ordered_json{{"caption", images_.classes[i]}, {"png", png_text(images_.pixels, i)}}));
    for (std::size_t epoch = 0; epoch < 7; ++epoch) {
      EXPECT_EQ(picture(1 + epoch).at("caption"), "epoch " + std::to_string(epoch));
      Tensor changed = Tensor::empty({1, 2, 3, 3}, DType::u8);
      augment(flips, images_, i, 1, std::int64_t(epoch), changed.data<std::uint8_t>());
      EXPECT_EQ(picture(1 + epoch).at("png"), png_text(changed, 0));
    }
    EXPECT_NE(picture(1).at("png"), picture(2).at("png"));
  }
  EXPECT_EQ(augmented_exhibit(flips, images_, {0, 1, 2, 3, 0, 1, 2}, 1).at("pictures").size(), 48u);
  EXPECT_TRUE(augmented_exhibit({.fill = {1, 2, 3}}, images_, {0, 1}, 1).is_null());
  for (const Augmentation& a : {Augmentation{.crop = 1}, {.rand_augment = {1, 5}}, {.cutout = 1}})
    EXPECT_FALSE(augmented_exhibit(a, images_, {0, 1}, 1).is_null());
}

}  // namespace
}  // namespace foldgrad::testing
