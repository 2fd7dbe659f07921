// A complete step of the trainer, always on the same batch.
#pragma once
#include <stdexcept>

#include "train/loop/trainer.h"

namespace foldgrad::bench {

class SameBatch final : public Task {
 public:
  SameBatch(std::unique_ptr<Model> model, NamedTensors inputs, std::int64_t weight)
      : Task(*model, {}), model_(std::move(model)), examples_{std::move(inputs), weight, weight} {}

  Examples next() override { return examples_; }
  BatchSequence& batches() override { return batches_; }
  Validation validate(Communicator*) override { throw std::logic_error("SameBatch has no validation data"); }

 private:
  std::unique_ptr<Model> model_;
  Examples examples_;
  BatchSequence batches_{0};
};

class TrainingStep {
 public:
  // `inputs` are those of model.loss(), on the host, and `weight` is the divisor of their loss. The constructor runs
  // the first steps, in which memory is allocated and libraries compile kernels.
  TrainingStep(std::unique_ptr<Model> model, NamedTensors inputs, std::int64_t weight, const Optimizer::Rule& rule,
               DType dtype)
      : task_(std::move(model), std::move(inputs), weight),
        optimizer_(rule, {{task_.model().parameters()}}),
        trainer_(task_, optimizer_, schedule_, {.dtype = dtype}) {
    for (int k = 0; k < (task_.model().device() == Device::cuda ? 3 : 1); ++k) (*this)();
  }

  void operator()() { trainer_.step(); }

 private:
  SameBatch task_;
  Optimizer optimizer_;
  Schedule schedule_{{.shape = ScheduleShape::constant, .peak = 1e-4}};
  Trainer trainer_;
};

}  // namespace foldgrad::bench
