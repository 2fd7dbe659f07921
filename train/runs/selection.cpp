#include "train/runs/selection.h"

#include <fmt/format.h>

#include <cmath>

#include "train/config/config.h"

namespace foldgrad {

Selection::Selection(const Task& task, std::int64_t patience, std::int64_t steps)
    : validates_on_test_(task.validates_on_test()), patience_(patience), steps_(steps) {
  if (patience > 0 && validates_on_test_)
    throw ConfigError(
        fmt::format("validate.patience must be 0 where {} are validated on, since it would choose by them, "
                    "got {}",
                    task.test_data(), patience));
}

bool Selection::take(std::int64_t step, const Validation& v) {
  ++without_better_;
  const bool better = validates_on_test_ ? step == steps_ : best_.worse_than(v.deciding, v.loss);
  if (!better) return false;
  // JSON has no NaN; the loss of a model with a score can hardly be one.
  best_ = {step, v.deciding, std::isfinite(v.loss) ? v.loss : BestValidation().loss, v.text};
  without_better_ = 0;
  return true;
}

void Selection::restore(const BestValidation& best, std::int64_t without_better) {
  best_ = saved_ = best;
  without_better_ = without_better;
}

}  // namespace foldgrad
