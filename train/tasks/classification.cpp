#include "train/tasks/classification.h"

#include <cmath>
#include <sstream>

#include "engine/check.h"
#include "train/data/images/mix.h"
#include "train/tasks/classification_scores.h"

namespace foldgrad {
namespace {

Augmentation augmentation_of(const ImageConfig& config, const ImageStatistics& pixels = {}) try {
  std::istringstream words(config.augment);
  Augmentation all = augmentation({std::istream_iterator<std::string>(words), {}});
  for (std::size_t k = 0; k < all.fill.size(); ++k) all.fill[k] = std::uint8_t(std::lround(255 * pixels.mean[k]));
  if (config.fill == CropFill::mean) all.border = all.fill;
  return all;
} catch (const std::invalid_argument& e) {
  throw ConfigError(fmt::format("data.augment: {}", e.what()));
}

// The deviation of a channel of one value is not divided by.
ImageStatistics statistics_of(const ImageSet& images) {
  ImageStatistics pixels = image_statistics(images);
  for (double& std : pixels.std)
    if (std == 0) std = 1;
  return pixels;
}

}  // namespace

void predict(Model& model, ImageBatches& batches,
             const std::function<void(const Tensor& logits, const ImageBatch& batch)>& take) {
  batches.seek({});
  for (std::int64_t i = 0; i < batches.per_epoch(); ++i) {
    const ImageBatch batch = batches.next();
    Tape tape(/*recording=*/false);
    const Var logits = model.forward({{"images", batch.images}}, {.tape = tape, .dtype = DType::f32});
    take(logits.value().to(Device::cpu), batch);
  }
}

Classification::Classification(std::unique_ptr<Model> model, const ClassificationData& data,
                               const ExperimentConfig& config)
    : model_(std::move(model)),
      config_(config.images),
      label_smoothing_(config.train.label_smoothing),
      seed_(std::uint64_t(config.train.seed)),
      augmentation_(augmentation_of(config_, static_cast<const ImageModel&>(*model_).config().pixels)),
      digests_(data.digests),
      shown_(data.train_rows),
      valid_is_test_(data.valid_is_test),
      batches_(data.train, data.train_rows,
               {.size = config_.batch, .seed = seed_, .augmentation = augmentation_, .prefetch = true}),
      valid_(data.valid, data.valid_rows, {.size = config_.batch, .training = false}) {}

Examples Classification::next() {
  const DataCursor at = batches_.cursor();
  const ImageBatch batch = batches_.next();
  const std::int64_t images = batch.labels.size();
  const bool mixes = config_.mixup > 0 || config_.cutmix > 0;
  if (!mixes || (config_.mix_off_epoch > 0 && at.epoch >= config_.mix_off_epoch))
    return {{{"images", batch.images}, {"target", batch.labels}}, images, images};
  const Mix drawn = draw_mix({.mixup = config_.mixup, .cutmix = config_.cutmix}, batches_.images().height(),
                             batches_.images().width(), seed_, at.epoch * batches_.per_epoch() + at.batch);
  const MixedImages mixed = mix(batch.images, batch.labels, drawn);
  return {
      {{"images", mixed.images}, {"target", mixed.labels}, {"second_target", mixed.others}, {"share", mixed.lambda}},
      images,
      images};
}

Validation Classification::validate() {
  ClassificationScores scores(valid_.images().classes);
  WorstMistakes mistakes;
  predict(*model_, valid_, [&](const Tensor& logits, const ImageBatch& batch) {
    scores.add(logits, batch.labels);
    mistakes.add(logits, batch.images, batch.labels);
  });
  Validation v = scores.validation();
  v.exhibits = exhibits(scores, mistakes);
  return v;
}

std::string Classification::exhibits(const ClassificationScores& scores, const WorstMistakes& mistakes) const {
  const std::vector<std::string>& classes = valid_.images().classes;
  auto all = nlohmann::ordered_json::array();
  for (const auto& exhibit : {confusion_exhibit(scores, classes), mistakes_exhibit(mistakes, classes),
                              augmented_exhibit(augmentation_, batches_.images(), shown_, seed_)})
    if (!exhibit.is_null()) all.push_back(exhibit);
  return all.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void check_images(const ImageConfig& config) {
  (void)augmentation_of(config);
  if (config.mix_off_epoch > 0 && config.mixup == 0 && config.cutmix == 0)
    throw ConfigError(
        "train.mix_off_epoch goes with train.mixup or train.cutmix: one must be above 0 with it, got 0 for both");
}

std::unique_ptr<Task> make_classification(const ExperimentConfig& config, const std::string& data_directory,
                                          const std::string&, const NewModel& new_model) {
  const ClassificationData data = read_images(config.images, data_directory);
  return std::make_unique<Classification>(
      new_model(
          {.image_size = data.train.height(), .classes = data.train.classes, .pixels = statistics_of(data.train)}),
      data, config);
}

}  // namespace foldgrad
