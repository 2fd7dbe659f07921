// Learning to translate: pairs of sentences, the label-smoothed cross entropy, BLEU.
#pragma once
#include "models/transformer/beam_search.h"
#include "train/data/text/batches.h"
#include "train/data/text/experiment_data.h"
#include "train/loop/task.h"
#include "train/tasks/families.h"

namespace foldgrad {

class Translation final : public Task {
 public:
  // Throws std::invalid_argument for data that Batches refuses, and for a model that is no Transformer.
  Translation(std::unique_ptr<Model> model, ExperimentData data, const ExperimentConfig& config);

  Transformer& model() override { return model_; }
  Examples next() override;
  std::int64_t batches_per_epoch() const override { return batches_.per_epoch(); }
  DataCursor cursor() const override { return batches_.cursor(); }
  void seek(DataCursor cursor) override { batches_.seek(cursor); }
  double label_smoothing() const override { return label_smoothing_; }
  // Translates the validation text: BLEU decides.
  Validation validate() override;
  std::string deciding_score() const override { return "bleu"; }
  std::string unit_of_work() const override { return "tokens"; }
  void write_companions(const std::string& directory) const override;
  std::map<std::string, std::string> data_digests() const override { return data_.digests; }

 private:
  std::vector<std::string> translate() const;

  std::unique_ptr<Model> owned_;
  Transformer& model_;
  ExperimentData data_;
  const DataConfig config_;
  const double label_smoothing_;
  Batches batches_, valid_;
};

// Examples of a batch, on the host.
Examples examples_of(const Batch& batch);

// For the row of the task (families.h).
DataSizes sizes_of(const Vocabulary& vocabulary);
std::unique_ptr<Task> make_translation(const ExperimentConfig& config, const std::string& data_directory,
                                       const std::string& earlier, const NewModel& new_model);

}  // namespace foldgrad
