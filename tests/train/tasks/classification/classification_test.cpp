// Tests scores and exhibits of classification, and the examples of a validation set.
#include <cmath>
#include <limits>

#include "tests/engine/files/temporary_directory.h"
#include "tests/models/transformer/tiny_translation.h"
#include "tests/train/tasks/classification/images/counting_images.h"
#include "train/analyses/layer_outputs.h"
#include "train/system/digest.h"
#include "train/tasks/classification/images/picture.h"
#include "train/tasks/classification/scores.h"
#include "train/tasks/families.h"
#include "train/tasks/translation/vocabulary.h"

namespace foldgrad::testing {
namespace {

const std::vector<std::string> kClasses{"cat", "dog", "eel", "fly", "gnu", "hen"};

ClassificationScores scores_of(const std::vector<double>& logits, const std::vector<std::int64_t>& labels) {
  ClassificationScores scores(kClasses);
  const auto B = std::int64_t(labels.size());
  scores.add(Tensor::of<double>({B, 6}, logits), Tensor::of<std::int64_t>({B}, labels), Tensor::zeros({B}, DType::u8));
  return scores;
}

TEST(ClassificationScores, CLS_1_CLS_2_WorkedByHand) {
  // The labels of the four rows have the largest, the second largest, the fifth largest and the smallest logit.
  const ClassificationScores scores =
      scores_of({3, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 5, 4, 3, 2, 1, 0, 5, 4, 3, 2, 1, 0}, {0, 0, 4, 5});
  EXPECT_EQ(scores.images(), 4);
  EXPECT_EQ(scores.top(1), 25);
  EXPECT_EQ(scores.top(2), 50);
  EXPECT_EQ(scores.top(4), 50);
  EXPECT_EQ(scores.top(5), 75);
  EXPECT_EQ(scores.top(6), 100);
  EXPECT_EQ(scores.top(9), 100);
  const double e = std::exp(1.0), all = 1 + e + std::exp(2.0) + std::exp(3.0) + std::exp(4.0) + std::exp(5.0);
  const double want =
      (std::log(std::exp(3.0) + 5) - 3) + (std::log(e + std::exp(2.0) + 4) - 1) + (std::log(all) - 1) + std::log(all);
  EXPECT_NEAR(scores.loss(), want / 4, 1e-14);
  EXPECT_EQ(scores.count(0, 0), 1);
  EXPECT_EQ(scores.count(0, 1), 1);
  EXPECT_EQ(scores.count(4, 0), 1);
  EXPECT_EQ(scores.count(5, 0), 1);
}

TEST(ClassificationScores, BatchesAddUp) {
  ClassificationScores apart(kClasses);
  const Tensor logits = randn({7, 6}, 1), labels = random_ids({7}, 6, 2), images = Tensor::zeros({7}, DType::u8);
  apart.add(logits.slice(0, 3), labels.slice(0, 3), images.slice(0, 3));
  apart.add(logits.slice(3, 7), labels.slice(3, 7), images.slice(3, 7));
  ClassificationScores together(kClasses);
  together.add(logits, labels, images);
  EXPECT_EQ(apart.validation().scores, together.validation().scores);
  EXPECT_EQ(apart.validation().samples, together.validation().samples);
}

TEST(ClassificationScores, OfEqualLogitsTheFirstCountsAsLarger) {
  const std::vector<double> equal{1, 1, 1, 1, 1, 1};
  EXPECT_EQ(scores_of(equal, {0}).top(1), 100);
  EXPECT_EQ(scores_of(equal, {1}).top(1), 0);
  EXPECT_EQ(scores_of(equal, {4}).top(5), 100);
  EXPECT_EQ(scores_of(equal, {5}).top(5), 0);
  EXPECT_EQ(scores_of(equal, {3}).count(3, 0), 1);
}

TEST(ClassificationScores, NothingIsRightThatIsNoNumber) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const ClassificationScores of_label = scores_of({nan, 1, 2, 3, 4, 5}, {0}),
                             of_all = scores_of({nan, nan, nan, nan, nan, nan}, {0});
  EXPECT_EQ(of_label.top(5), 0);
  EXPECT_EQ(of_all.top(5), 0);
  EXPECT_TRUE(std::isnan(of_label.loss()));
  for (std::int64_t k = 0; k < 6; ++k) EXPECT_EQ(of_all.count(0, k), 0);
}

TEST(ClassificationScores, SayWhatDecidesAndWhatIsTakenForWhat) {
  const Validation v =
      scores_of({3, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 9, 0, 0},
                {0, 0, 0, 0, 3})
          .validation();
  EXPECT_EQ(v.deciding, 40);
  EXPECT_EQ(v.scores, (std::vector<std::pair<std::string, double>>{{"loss", v.loss}, {"top1", 40}, {"top5", 100}}));
  EXPECT_EQ(v.samples,
            "cat: 1 of 4 correct; taken for 2 dog, 1 eel\ndog: 0 of 0 correct\neel: 0 of 0 correct\nfly: 1 of 1 "
            "correct\ngnu: 0 of 0 correct\nhen: 0 of 0 correct\n");
  EXPECT_EQ(v.text.substr(0, 38), "top-1 40.00 %, top-5 100.00 %, loss 1.");
  EXPECT_EQ(message_of([] {
              ClassificationScores(kClasses).add(randn({2, 5}, 1), random_ids({2}, 5, 1), {});
            }),
            "scores: logits must be [2, 6], got [2, 5]");
}

using nlohmann::ordered_json;

std::string png_text(const Tensor& images, std::int64_t i) {
  const std::vector<std::uint8_t> pixels = images.slice(i, i + 1).values<std::uint8_t>();
  return base64(encode_png({images.shape()[1], images.shape()[2], pixels}));
}

class Exhibits : public ::testing::Test {
 protected:
  ClassificationScores scores() const {
    ClassificationScores all(classes_);
    all.add(logits_, images_.labels, images_.pixels);
    return all;
  }

  const std::vector<std::string> classes_{"cat", "dog", "eel"};
  const ImageSet images_ = counting_images(4, 2, 3, 3);  // labels 0, 1, 2, 0
  // Only the third image is classified correctly. The fourth has the largest loss, then the second, then the first.
  const Tensor logits_ = Tensor::of<double>({4, 3}, {0, 1, 0, 5, 0, 0, 0, 0, 9, -9, 0, 9});
};

TEST_F(Exhibits, TheWorstMistakesComeFirst) {
  ClassificationScores all(classes_), two(classes_, 2);
  for (ClassificationScores* scores : {&all, &two}) {
    scores->add(logits_.slice(0, 1).to(DType::f32), images_.labels.slice(0, 1), images_.pixels.slice(0, 1));
    scores->add(logits_.slice(1, 4), images_.labels.slice(1, 4), images_.pixels.slice(1, 4));
  }
  const std::vector<Mistake>& worst = all.worst_mistakes();
  ASSERT_EQ(worst.size(), 3u);
  ASSERT_EQ(two.worst_mistakes().size(), 2u);
  const int order[] = {3, 1, 0}, predicted[] = {2, 0, 1};
  const double losses[] = {std::log(std::exp(-9) + 1 + std::exp(9)) + 9, std::log(std::exp(5) + 2),
                           std::log(std::exp(1) + 2)};
  for (std::size_t i = 0; i < 3; ++i) {
    const Mistake& m = worst[i];
    EXPECT_EQ(m.label, images_.label(order[i]));
    EXPECT_EQ(m.predicted, predicted[i]);
    EXPECT_NEAR(m.loss, losses[i], 1e-12);
    EXPECT_EQ(m.image.values<std::uint8_t>(), images_.pixels.slice(order[i], order[i] + 1).values<std::uint8_t>());
  }
  EXPECT_NEAR(worst[2].certainty, std::exp(1) / (std::exp(1) + 2), 1e-12);
  EXPECT_EQ(two.worst_mistakes()[1].loss, worst[1].loss);
}

TEST_F(Exhibits, WhatIsNotANumberIsWorst) {
  ClassificationScores scores(classes_);
  scores.add(Tensor::of<double>({2, 3}, {0, 1, 0, 5, NAN, 0}), images_.labels.slice(0, 2), images_.pixels.slice(0, 2));
  ASSERT_EQ(scores.worst_mistakes().size(), 2u);
  EXPECT_EQ(scores.worst_mistakes()[0].label, 1);
  EXPECT_EQ(scores.worst_mistakes()[0].loss, INFINITY);
}

TEST_F(Exhibits, ConfusionsAreCounted) {
  EXPECT_EQ(confusion_exhibit(scores()).at("matrix"),
            (ordered_json{{"names", classes_}, {"counts", {{0, 1, 1}, {1, 0, 0}, {0, 0, 1}}}}));
  EXPECT_TRUE(confusion_exhibit(ClassificationScores(std::vector<std::string>(101, "one of many"))).is_null());
}

TEST_F(Exhibits, MistakesArePictures) {
  const ordered_json exhibit = mistakes_exhibit(scores());
  if (!png_available()) {
    EXPECT_EQ(exhibit.at("note"), "No pictures: foldgrad was built without libpng.");
    EXPECT_TRUE(exhibit.at("pictures").empty());
    return;
  }
  ASSERT_EQ(exhibit.at("pictures").size(), 3u);
  EXPECT_EQ(exhibit.at("pictures")[0], (ordered_json{{"caption", "true cat (0.0 %), predicted eel (100.0 %)"},
                                                     {"png", png_text(images_.pixels, 3)}}));
  // The probabilities are 1 and e, divided by e + 2.
  EXPECT_EQ(exhibit.at("pictures")[2].at("caption"), "true cat (21.2 %), predicted dog (57.6 %)");
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

// The sentences of a translation batch differ in length. The layer outputs of a sentence must not depend on the other
// sentences of its batch.
TEST(ValidationExamples, OfTranslationAreTheSameInAnyBatch) {
  const TemporaryDirectory files;
  const Vocabulary vocabulary = Vocabulary::numbers();
  vocabulary.save(files / "vocabulary");
  TransformerConfig sizes = tiny_config("ln");
  sizes.source_vocabulary = vocabulary.source_size(), sizes.target_vocabulary = vocabulary.target_size();
  sizes.share_embeddings = "decoder", sizes.max_positions = 64;
  Transformer model(sizes, 3, DType::f64);
  write_bytes(files / "config.toml", "[data]\ntask = \"numbers\"\n");
  const ExampleSet examples =
      examples_of(model, {.split = "valid", .config = files / "config.toml", .directory = files.path()});
  EXPECT_NE(examples.digest({0, 1}), examples.digest({1, 0}));

  const std::vector<std::int64_t> batch = {0, 1, 2, 3};
  const NamedTensors inputs = examples.inputs(batch);
  for (const char* lengths : {"source_lengths", "input_lengths"})
    EXPECT_EQ(Segments(inputs.at(lengths).values<std::int64_t>()).equal_length(), -1) << lengths;
  const std::vector<LayerOutput> together = layer_outputs(model, inputs, DType::f64);
  ASSERT_FALSE(together.empty());
  for (const std::int64_t i : batch) {
    const std::vector<LayerOutput> alone = layer_outputs(model, examples.inputs({i}), DType::f64);
    for (std::size_t k = 0; k < alone.size(); ++k) {
      const std::string& layer = alone[k].layer;
      const Segments rows(inputs.at(examples.lengths(layer)).values<std::int64_t>());
      const Tensor got = together[k].values.slice(rows.offset(i), rows.offset(i + 1));
      EXPECT_TRUE(close(got, alone[k].values, 1e-12)) << layer;
    }
  }
}

}  // namespace
}  // namespace foldgrad::testing
