#include "train/runs/background_validation.h"

#include <omp.h>

#include <chrono>

#include "engine/check.h"

namespace foldgrad {

TimedValidation timed_validation(Task& task, Model& model) {
  const auto begin = std::chrono::steady_clock::now();
  Validation validation = task.validate(model);
  return {std::move(validation), std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()};
}

void BackgroundValidation::begin() {
  FOLDGRAD_CHECK(!running(), "background validation: the one before has not been ended");
  const Model& model = task_.model();
  if (copy_)
    copy_->copy_from(model);
  else
    copy_ = model.copy(model.dtype(), Device::cpu);
  outcome_ = std::async(std::launch::async, [this, threads = omp_get_max_threads()] {
    omp_set_num_threads(threads);  // which OpenMP keeps for each thread apart
    return timed_validation(task_, *copy_);
  });
}

}  // namespace foldgrad
