// A task of batches that a test has made, so that it can look at them and go through them itself.
#pragma once
#include "train/tasks/translation.h"

namespace foldgrad::testing {

class BatchTask final : public Task {
 public:
  BatchTask(Transformer& model, Batches& batches) : model_(model), batches_(batches) {}

  Model& model() override { return model_; }
  Examples next() override { return examples_of(batches_.next()); }
  DataCursor cursor() const override { return batches_.cursor(); }
  void seek(DataCursor cursor) override { batches_.seek(cursor); }
  Validation validate(Communicator*) override { throw std::logic_error("a task of batches validates nothing"); }
  std::string deciding_score() const override { return ""; }
  std::string unit_of_work() const override { return "tokens"; }

 private:
  Transformer& model_;
  Batches& batches_;
};

}  // namespace foldgrad::testing
