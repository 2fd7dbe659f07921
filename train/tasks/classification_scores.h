// Scores of an image classifier.
#pragma once
#include "train/loop/task.h"

namespace foldgrad {

class ClassificationScores {
 public:
  explicit ClassificationScores(std::vector<std::string> classes);

  // Logits [B, classes], floating, and labels, i64 [B], on the CPU.
  void add(const Tensor& logits, const Tensor& labels);

  std::int64_t images() const { return images_; }
  // [CLS-1] -log p of the label per image, in nats.
  double loss() const { return loss_ / double(images_); }
  // [CLS-2] Percent of images whose label is among the k with the largest logits. Of equal logits the first counts as
  // larger, and of those that are not numbers each other one.
  double top(std::int64_t k) const;
  // Images of class `of` for which `predicted` has the largest logit; none where a logit is not a number.
  std::int64_t count(std::int64_t of, std::int64_t predicted) const {
    return confusion_[std::size_t(of * std::int64_t(classes_.size()) + predicted)];
  }

  // Top-1 decides. The samples are a line for each class: how many of its images are right, and what the others are
  // taken for.
  Validation validation() const;

 private:
  std::string confusions() const;

  std::vector<std::string> classes_;
  std::vector<std::int64_t> ranks_;      // images whose label has so many larger logits
  std::vector<std::int64_t> confusion_;  // [class, predicted]
  std::int64_t images_ = 0;
  double loss_ = 0;
};

}  // namespace foldgrad
