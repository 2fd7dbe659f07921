// The task of a training run: a model, its training examples, its loss and its validation.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/parallel/communicator.h"
#include "models/model.h"
#include "train/loop/prefetched.h"

namespace foldgrad {

// The input of one pass of the model.
struct Examples {
  NamedTensors inputs;
  std::int64_t weight = 0;  // number of target tokens or images; divides the sum of their losses [TRN-1]
  std::int64_t work = 0;    // number of tokens in both languages, or of images; used to report the speed
};

struct Validation {
  double loss = 0;      // mean per unit of Examples::weight, in nats, without label smoothing
  double deciding = 0;  // ranks checkpoints: the largest value is best; among equal values, the smallest loss
  // The scores by their names in the log, including the loss and the deciding score. The notes say how they were
  // computed.
  std::vector<std::pair<std::string, double>> scores;
  std::vector<std::pair<std::string, std::string>> notes = {};
  std::string text, short_text;  // one line that includes the notes, and a shorter line for a terminal
  std::string signatures = {};   // printed once on a terminal, before the first short_text; may be empty
  std::string samples = {};      // some results as text, for a file in RUN/samples/; if empty, no file is written
  std::string exhibits = {};     // the content of RUN/exhibits.json for reports (train/reports/report.h); may be empty
};

// Facts about a task that do not change.
struct TaskFacts {
  std::string deciding_score = {};  // name of the score that is Validation::deciding
  bool smaller_is_better = false;   // if true, Validation::deciding is this score negated
  std::string unit_of_work = {};    // unit of Examples::work, such as "tokens"
  bool validates_on_test = false;   // validation uses the test set, so it does not choose checkpoints
  std::map<std::string, std::string> data_digests = {};  // SHA-256 of each data file, by name

  // Returns "the test images", for messages.
  std::string test_data() const { return "the test " + unit_of_work; }
};

class Task {
 public:
  // `model` must outlive the task.
  Task(Model& model, TaskFacts facts) : model_(model), facts_(std::move(facts)) {}
  virtual ~Task() = default;

  Model& model() { return model_; }
  const TaskFacts& facts() const { return facts_; }

  // Returns the next examples and moves the cursor of batches().
  virtual Examples next() = 0;
  // Returns the sequence of batches that next() reads.
  virtual BatchSequence& batches() = 0;
  // Scores model() in its current state on data that it is not trained on. With a communicator, the ranks divide the
  // batches among themselves and return the result that a single process would.
  virtual Validation validate(Communicator* communicator = nullptr) = 0;
  // Writes the files that a model directory needs in addition to the model, such as a vocabulary.
  virtual void write_companions(const std::string& /*directory*/) const {}

 private:
  Model& model_;
  const TaskFacts facts_;
};

}  // namespace foldgrad
