// The trainer's step on the same batch again and again, with all that a step of a run does: on CUDA it is replayed as a
// graph.
#pragma once
#include <memory>

#include "models/model.h"
#include "train/loop/optimizer/optimizer.h"

namespace foldgrad::bench {

class TrainingStep {
 public:
  // inputs: those of model.loss(), on the host. weight: what their losses are divided by. The first steps, which
  // allocate and compile products, have been made when this returns.
  TrainingStep(std::unique_ptr<Model> model, NamedTensors inputs, std::int64_t weight, const Optimizer::Rule& rule,
               DType dtype);
  ~TrainingStep();

  void operator()();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace foldgrad::bench
