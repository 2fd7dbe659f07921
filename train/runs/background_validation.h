// Validation of a copy of the model on the host, in a thread of its own, while training goes on.
#pragma once
#include <future>
#include <memory>

#include "train/loop/task.h"

namespace foldgrad {

struct TimedValidation {
  Validation validation;
  double seconds = 0;
};

// In this thread.
TimedValidation timed_validation(Task& task, Model& model);

class BackgroundValidation {
 public:
  // Which must outlive it.
  explicit BackgroundValidation(Task& task) : task_(task) {}

  // Copies the task's model as it is, and begins to validate the copy, with as many threads as this one may use. None
  // may be running.
  void begin();
  bool running() const { return outcome_.valid(); }
  // Waits until it has ended. Throws what validating threw.
  TimedValidation end() { return outcome_.get(); }

 private:
  Task& task_;
  std::unique_ptr<Model> copy_;
  std::future<TimedValidation> outcome_;  // the last member: it waits for the thread, which uses the others
};

}  // namespace foldgrad
