// Scores of an image classifier, and exhibits of it for the report of a run, in the form of train/reports/report.h.
#pragma once
#include <nlohmann/json.hpp>

#include "train/data/images/augmentation.h"
#include "train/loop/task.h"

namespace foldgrad {

// An image that a model takes for something else.
struct Mistake {
  double loss;  // -log p of the label; infinite for what is not a number
  std::int64_t label, predicted;
  double certainty;  // p of the predicted class
  Tensor image;      // u8 [1, H, W, 3]
};

class ClassificationScores {
 public:
  // Keeps at most `most_mistakes`.
  explicit ClassificationScores(std::vector<std::string> classes, std::size_t most_mistakes = 24);

  // Adds logits [B, classes], floating, labels, i64 [B], and images, u8 [B, H, W, 3], on the CPU.
  void add(const Tensor& logits, const Tensor& labels, const Tensor& images);

  const std::vector<std::string>& classes() const { return classes_; }
  std::int64_t images() const { return images_; }
  // [CLS-1] -log p of the label per image, in nats.
  double loss() const { return loss_ / double(images_); }
  // [CLS-2] Percent of images whose label is among the k with the largest logits. Of equal logits the first counts as
  // larger, and of those that are not numbers each other one.
  double top(std::int64_t k) const;
  // Counts the images of class `of` for which `predicted` has the largest logit; none where a logit is not a number.
  std::int64_t count(std::int64_t of, std::int64_t predicted) const {
    return confusion_[std::size_t(of * std::int64_t(classes_.size()) + predicted)];
  }
  // Returns those whose classes the model thinks least likely, the greatest loss first; of equal ones the first image.
  const std::vector<Mistake>& worst_mistakes() const { return mistakes_; }

  // Returns scores of which top-1 decides. The samples are a line for each class: how many of its images are right, and
  // what the others are taken for.
  Validation validation() const;

 private:
  std::string confusions() const;

  std::vector<std::string> classes_;
  std::size_t most_mistakes_;
  std::vector<std::int64_t> ranks_;      // images whose label has so many larger logits
  std::vector<std::int64_t> confusion_;  // [class, predicted]
  std::vector<Mistake> mistakes_;
  std::int64_t images_ = 0;
  double loss_ = 0;
};

// Shows how often images of each class are taken for each other. Null with more than 100 classes: nobody could read it.
nlohmann::ordered_json confusion_exhibit(const ClassificationScores& scores);
// Shows pictures, which need libpng; without it a note says so.
nlohmann::ordered_json mistakes_exhibit(const ClassificationScores& scores);
// Shows some of the images `rows` of a set, and what training makes of them in its first epochs. Null where it leaves
// them as they are.
nlohmann::ordered_json augmented_exhibit(const Augmentation& augmentation, const ImageSet& images,
                                         const std::vector<std::int64_t>& rows, std::uint64_t seed);

}  // namespace foldgrad
