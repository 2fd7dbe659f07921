// The task of classifying images: trains on labelled images with the label-smoothed cross entropy, and scores the
// fraction of correct predictions.
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
  std::vector<std::int64_t> rows;  // indices of the images that are used
};

struct ClassificationData {
  ImageSplit train, valid;
  bool valid_is_test = false;
  std::map<std::string, std::string> digests = {};  // SHA-256 of each file, by name
};

// Reads the images for training and validation. Holds out data.valid_images of the training images for validation; with
// data.task = "shapes", draws this number of additional images instead. If data.valid_images is 0, validation uses the
// test images. Throws FileError and std::invalid_argument.
ClassificationData read_images(const ImageConfig& config, const std::string& directory);

// Reads "train", "valid" or "test". Throws std::invalid_argument for any other name, and for "valid" if validation uses
// the test images.
ImageSplit read_split(const ImageConfig& config, const std::string& directory, const std::string& split);

class Classification final : public Task {
 public:
  // `model` is an ImageModel. Its mean pixel fills areas that augmentation uncovers; if data.fill is "zero", crops are
  // filled with black instead. Throws std::invalid_argument if ImageBatches does, and ConfigError for an unknown
  // augmentation.
  Classification(std::unique_ptr<Model> model, const ClassificationData& data, const ExperimentConfig& config);

  // How images are mixed depends only on the seed and on the batch's number, counted over all epochs. So resuming the
  // run or skipping a batch does not change how later batches are mixed.
  Examples next() override;
  ImageBatches& batches() override { return batches_; }
  // Computes in f32 regardless of the training dtype, as Translation and commands without --dtype do, so that a score
  // depends only on the checkpoint, not on how it was trained.
  Validation validate(Communicator* communicator) override;

 private:
  std::unique_ptr<Model> model_;
  const ClassificationData data_;
  const ImageConfig config_;
  const std::uint64_t seed_;
  const Augmentation augmentation_;
  ImageBatches batches_, valid_;
};

// The task's functions (families.h). An input file of `foldgrad run` has a tensor `images` [images, S, S, 3]: u8, or
// normalized f32 or f64. Evaluation uses batches of train.batch images. Examples are the images on which runs validate.
// Both throw the exceptions of read_split(), and std::invalid_argument if the images do not have the model's image
// size. Evaluation also throws std::invalid_argument if the images do not have the model's number of classes.
extern const TaskKind kClassification;

}  // namespace foldgrad
