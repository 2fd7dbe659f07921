#include "bench/training_step.h"

#include <stdexcept>

#include "train/loop/trainer.h"

namespace foldgrad::bench {
namespace {

class SameBatch final : public Task {
 public:
  SameBatch(std::unique_ptr<Model> model, NamedTensors inputs, std::int64_t weight)
      : model_(std::move(model)), examples_{std::move(inputs), weight, weight} {}

  Model& model() override { return *model_; }
  Examples next() override { return examples_; }
  DataCursor cursor() const override { return {}; }
  void seek(DataCursor) override {}
  double label_smoothing() const override { return 0.1; }
  Validation validate() override { throw std::logic_error("a single batch validates nothing"); }
  std::string deciding_score() const override { return ""; }
  std::string unit_of_work() const override { return ""; }
  void write_companions(const std::string&) const override {}

 private:
  std::unique_ptr<Model> model_;
  Examples examples_;
};

}  // namespace

struct TrainingStep::Parts {
  SameBatch task;
  Optimizer optimizer;
  Schedule schedule{{.shape = ScheduleShape::constant, .peak = 1e-4}};
  Trainer trainer;

  Parts(std::unique_ptr<Model> model, NamedTensors inputs, std::int64_t weight, const Optimizer::Rule& rule,
        DType dtype)
      : task(std::move(model), std::move(inputs), weight),
        optimizer(rule, {{task.model().parameters()}}),
        trainer(task, optimizer, schedule, {.dtype = dtype}) {}
};

TrainingStep::TrainingStep(std::unique_ptr<Model> model, NamedTensors inputs, std::int64_t weight,
                           const Optimizer::Rule& rule, DType dtype) {
  const bool cuda = model->device() == Device::cuda;
  parts_ = std::make_unique<Parts>(std::move(model), std::move(inputs), weight, rule, dtype);
  for (int k = 0; k < (cuda ? 3 : 1); ++k) (*this)();
}
TrainingStep::~TrainingStep() = default;

void TrainingStep::operator()() { parts_->trainer.step(); }

}  // namespace foldgrad::bench
