// Selects a run's best checkpoint by its validations, and ends the run when patience is exhausted.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "train/loop/task.h"

namespace foldgrad {

struct BestValidation {
  std::int64_t step = 0;
  double score = std::numeric_limits<double>::lowest(), loss = std::numeric_limits<double>::max();  // as in Validation
  std::string text;                                                                                 // Validation::text

  // Returns true if a validation with these values is better. Among equal scores, the smaller loss is better.
  bool worse_than(double other_score, double other_loss) const {
    return other_score > score || (other_score == score && other_loss < loss);
  }
};

class Selection {
 public:
  // Training stops after `patience` validations without improvement; with 0 it never stops for this reason.
  Selection(const Task& task, std::int64_t patience, std::int64_t steps)
      : validates_on_test_(task.facts().validates_on_test), patience_(patience), steps_(steps) {}

  // Returns true if the model that was validated after `step` updates is the best so far. When validating on the test
  // set, returns true only for the last model.
  bool take(std::int64_t step, const Validation& v) {
    ++without_better_;
    if (validates_on_test_ ? step != steps_ : !best_.worse_than(v.deciding, v.loss)) return false;
    // JSON has no NaN or infinity, so a loss that is not finite is saved as the largest one.
    best_ = {step, v.deciding, std::isfinite(v.loss) ? v.loss : BestValidation().loss, v.text};
    without_better_ = 0;
    return true;
  }

  const BestValidation& best() const { return best_; }
  std::int64_t without_better() const { return without_better_; }  // number of validations since the best one
  bool out_of_patience() const { return patience_ > 0 && without_better_ >= patience_; }

  // Call forget_unsaved() before and saved() after writing a checkpoint: only a saved model can be the best one.
  void forget_unsaved(std::int64_t step) {
    if (best_.step != step) best_ = saved_;
  }
  void saved() { saved_ = best_; }
  void restore(const BestValidation& best, std::int64_t without_better) {
    best_ = saved_ = best;
    without_better_ = without_better;
  }

 private:
  const bool validates_on_test_;
  const std::int64_t patience_, steps_;
  BestValidation best_, saved_;
  std::int64_t without_better_ = 0;
};

}  // namespace foldgrad
