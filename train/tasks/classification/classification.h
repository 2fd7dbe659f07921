// The task of classifying images: trains on labelled images with the label-smoothed cross entropy, and scores the share
// of correct predictions.
#pragma once
#include "models/images/model.h"
#include "train/loop/task.h"
#include "train/tasks/classification/batches.h"
#include "train/tasks/classification/config.h"
#include "train/tasks/classification/scores.h"
#include "train/tasks/families.h"

namespace foldgrad {

struct ImageSplit {
  ImageSet images;
  std::vector<std::int64_t> rows;  // the images that are used
};

struct ClassificationData {
  ImageSplit train, valid;
  bool valid_is_test = false;
  std::map<std::string, std::string> digests = {};  // SHA-256 of the files, by name
};

// Reads images for training and for validation. data.valid_images validation images are held out from the training
// images or, if images are drawn, drawn in addition. Throws FileError and std::invalid_argument.
ClassificationData read_images(const ImageConfig& config, const std::string& directory);

// Reads "train", "valid" or "test". Throws std::invalid_argument for any other name, and for "valid" if validation uses
// the test images.
ImageSplit read_split(const ImageConfig& config, const std::string& directory, const std::string& split);

class Classification final : public Task {
 public:
  // `model` is an ImageModel, whose mean pixel fills areas that augmentation uncovers, except for crops with data.fill
  // = "zero". Throws std::invalid_argument for data that ImageBatches refuses, and ConfigError for an unknown
  // augmentation.
  Classification(std::unique_ptr<Model> model, const ClassificationData& data, const ExperimentConfig& config);

  // Mixes images by the seed and the batch's number, which counts through all epochs. So resuming the run or leaving a
  // batch out does not change how later batches are mixed.
  Examples next() override;
  ImageBatches& batches() override { return batches_; }
  // Computes in f32 whatever the dtype of training, like Translation and like other commands without --dtype: a score
  // then depends on the checkpoint, not on how it was trained.
  Validation validate(Communicator* communicator) override;

 private:
  std::unique_ptr<Model> model_;
  const ClassificationData data_;
  const ImageConfig config_;
  const std::uint64_t seed_;
  const Augmentation augmentation_;
  ImageBatches batches_, valid_;
};

// The row of the task (families.h). Files for `foldgrad run` have images, [images, S, S, 3]: u8, or normalized f32 or
// f64. Evaluation is in batches of train.batch images. Examples are the images on which runs validate. Both throw as
// read_split() does, and std::invalid_argument for images of another size than the model's, evaluation also for another
// number of classes.
extern const TaskKind kClassification;

}  // namespace foldgrad
