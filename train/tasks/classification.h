// Learning to tell images apart: labelled images, the label-smoothed cross entropy, and how many labels are found.
#pragma once
#include "models/vit/vit.h"
#include "train/config/config.h"
#include "train/data/images/batches.h"
#include "train/loop/task.h"
#include "train/tasks/classification_exhibits.h"

namespace foldgrad {

struct ClassificationData {
  ImageSet train, valid;
  std::vector<std::int64_t> train_rows, valid_rows;  // the images of either that are used
  std::map<std::string, std::string> digests = {};   // SHA-256 of the files, by name
};

struct ClassificationOptions {
  std::int64_t batch = 128;  // images, in training and validation
  std::uint64_t seed = 1;    // of the order of the data, and of what augmentation draws
  double label_smoothing = 0.1;
  Augmentation augmentation = {};
};

class Classification final : public Task {
 public:
  // The model takes "images" and "target" (models/vit/vit.h). Throws std::invalid_argument for data that ImageBatches
  // refuses.
  Classification(std::unique_ptr<Model> model, const ClassificationData& data, const ClassificationOptions& options);

  Model& model() override { return *model_; }
  Examples next() override;
  DataCursor cursor() const override { return batches_.cursor(); }
  void seek(DataCursor cursor) override { batches_.seek(cursor); }
  Var loss(const Examples& examples, const ForwardPass& pass) override;
  Validation validate() override;
  std::string deciding_score() const override { return "top1"; }
  std::string unit_of_work() const override { return "images"; }
  void write_companions(const std::string&) const override {}
  std::map<std::string, std::string> data_digests() const override { return digests_; }

 private:
  std::string exhibits(const ClassificationScores& scores, const WorstMistakes& mistakes) const;

  std::unique_ptr<Model> model_;
  ClassificationOptions options_;
  std::map<std::string, std::string> digests_;
  std::vector<std::int64_t> shown_;  // training images, of which the report shows the first
  ImageBatches batches_, valid_;
};

// The images that a configuration names. Throws FileError and ConfigError.
ClassificationData read_images(const ImageConfig& config, const std::string& directory);

// For the table of families (families.h).
std::unique_ptr<Model> smallest_vit(const ExperimentConfig& config);
std::unique_ptr<Task> make_classification(const ExperimentConfig& config, const std::string& data_directory,
                                          const std::string& earlier, Device device);

}  // namespace foldgrad
