// Scores of an image classifier, and exhibits for a run's report, in the form of train/reports/report.h.
#pragma once
#include <nlohmann/json.hpp>

#include "train/loop/task.h"
#include "train/tasks/classification/augmentation.h"

namespace foldgrad {

// An image that a model classifies wrongly.
struct Mistake {
  double loss;  // -log p of the true label; infinity in place of NaN
  std::int64_t label, predicted;
  double certainty;  // probability of the predicted class
  Tensor image;      // u8 [1, H, W, 3]
};

class ClassificationScores {
 public:
  // Keeps at most `most_mistakes` mistakes.
  explicit ClassificationScores(std::vector<std::string> classes, std::size_t most_mistakes = 24);

  // Adds a batch, on the CPU: logits [B, classes] of a floating dtype, labels i64 [B] and images u8 [B, H, W, 3].
  void add(const Tensor& logits, const Tensor& labels, const Tensor& images);

  const std::vector<std::string>& classes() const { return classes_; }
  std::int64_t images() const { return images_; }
  // [CLS-1] Mean over the images of -log p of the label, in nats.
  double loss() const { return loss_ / double(images_); }
  // [CLS-2] Percent of images whose label is among the k with the largest logits. Of equal logits the first counts as
  // larger. A NaN counts as larger than the label's logit. If the label's logit is NaN, every other logit counts as
  // larger.
  double top(std::int64_t k) const;
  // Returns the number of images of class `of` for which `predicted` has the largest logit. Images with a NaN logit do
  // not count.
  std::int64_t count(std::int64_t of, std::int64_t predicted) const {
    return confusion_[std::size_t(of * std::int64_t(classes_.size()) + predicted)];
  }
  // Returns the wrongly classified images with the largest losses, the largest first. Equal losses keep their order.
  const std::vector<Mistake>& worst_mistakes() const { return mistakes_; }

  // Returns the scores; top-1 is the deciding one. The samples have a line for each class: the number of its images
  // that are classified correctly, and the classes predicted for its other images.
  Validation validation() const;

 private:
  std::string confusions() const;

  std::vector<std::string> classes_;
  std::size_t most_mistakes_;
  std::vector<std::int64_t> ranks_;      // entry k: number of images for which k logits exceed the label's
  std::vector<std::int64_t> confusion_;  // [true class, predicted class]
  std::vector<Mistake> mistakes_;
  std::int64_t images_ = 0;
  double loss_ = 0;
};

// Returns the confusion matrix, or null if there are more than 100 classes, since the table would be unreadable.
nlohmann::ordered_json confusion_exhibit(const ClassificationScores& scores);
// Returns pictures of the worst mistakes or, if the build lacks libpng, a note.
nlohmann::ordered_json mistakes_exhibit(const ClassificationScores& scores);
// Returns pictures of some of the images `rows` and of their augmented versions in the first epochs, or null if there
// is no augmentation.
nlohmann::ordered_json augmented_exhibit(const Augmentation& augmentation, const ImageSet& images,
                                         const std::vector<std::int64_t>& rows, std::uint64_t seed);

}  // namespace foldgrad
