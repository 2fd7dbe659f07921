#include "train/tasks/classification_scores.h"

#include <cmath>
#include <limits>

#include "tests/harness/compare.h"

namespace foldgrad::testing {
namespace {

const std::vector<std::string> kClasses{"cat", "dog", "eel", "fly", "gnu", "hen"};

// Six images of six classes; logits and labels as they stand.
ClassificationScores scores_of(const std::vector<double>& logits, const std::vector<std::int64_t>& labels) {
  ClassificationScores scores(kClasses);
  const auto B = std::int64_t(labels.size());
  scores.add(Tensor::of<double>({B, 6}, logits), Tensor::of<std::int64_t>({B}, labels));
  return scores;
}

TEST(ClassificationScores, CLS_1_CLS_2_WorkedByHand) {
  // The label has the largest logit, the second largest, the fifth, and the smallest.
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
  const Tensor logits = randn({7, 6}, 1), labels = random_ids({7}, 6, 2);
  apart.add(logits.slice(0, 3), labels.slice(0, 3));
  apart.add(logits.slice(3, 7), labels.slice(3, 7));
  ClassificationScores together(kClasses);
  together.add(logits, labels);
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
  ASSERT_EQ(v.scores.size(), 3u);
  EXPECT_EQ(v.scores[0], (std::pair<std::string, double>("loss", v.loss)));
  EXPECT_EQ(v.scores[1], (std::pair<std::string, double>("top1", 40)));
  EXPECT_EQ(v.scores[2], (std::pair<std::string, double>("top5", 100)));
  EXPECT_EQ(v.samples,
            "cat: 1 of 4 right; taken for 2 dog, 1 eel\ndog: 0 of 0 right\neel: 0 of 0 right\nfly: 1 of 1 right\n"
            "gnu: 0 of 0 right\nhen: 0 of 0 right\n");
  EXPECT_EQ(v.text.substr(0, 38), "top-1 40.00 %, top-5 100.00 %, loss 1.");
  EXPECT_EQ(message_of([] {
              ClassificationScores(kClasses).add(randn({2, 5}, 1), random_ids({2}, 5, 1));
            }),
            "scores: logits must be [2, 6], got [2, 5]");
}

}  // namespace
}  // namespace foldgrad::testing
