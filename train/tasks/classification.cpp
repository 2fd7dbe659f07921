#include "train/tasks/classification.h"

#include <cmath>
#include <sstream>

#include "engine/check.h"
#include "train/tasks/classification_scores.h"

namespace foldgrad {
namespace {

Augmentation augmentation_of(const ImageConfig& config) try {
  std::istringstream words(config.augment);
  return augmentation({std::istream_iterator<std::string>(words), {}});
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
                               const ClassificationOptions& options)
    : model_(std::move(model)),
      options_(options),
      digests_(data.digests),
      shown_(data.train_rows),
      valid_is_test_(data.valid_is_test),
      batches_(data.train, data.train_rows,
               {.size = options.batch, .seed = options.seed, .augmentation = options.augmentation, .prefetch = true}),
      valid_(data.valid, data.valid_rows, {.size = options.batch, .training = false}) {}

Examples Classification::next() {
  const DataCursor at = batches_.cursor();
  const ImageBatch batch = batches_.next();
  const std::int64_t images = batch.labels.size();
  const bool mixes = options_.mix.mixup > 0 || options_.mix.cutmix > 0;
  if (!mixes || (options_.mix_off_epoch > 0 && at.epoch >= options_.mix_off_epoch))
    return {{{"images", batch.images}, {"target", batch.labels}}, images, images};
  const Mix drawn = draw_mix(options_.mix, batches_.images().height(), batches_.images().width(), options_.seed,
                             at.epoch * batches_.per_epoch() + at.batch);
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
                              augmented_exhibit(options_.augmentation, batches_.images(), shown_, options_.seed)})
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
  const ImageConfig& c = config.images;
  const ClassificationData data = read_images(c, data_directory);
  const ImageStatistics pixels = statistics_of(data.train);
  Augmentation augmentation = augmentation_of(c);
  for (std::size_t k = 0; k < augmentation.fill.size(); ++k)
    augmentation.fill[k] = std::uint8_t(std::lround(255 * pixels.mean[k]));
  return std::make_unique<Classification>(
      new_model({.image_size = data.train.height(), .classes = data.train.classes, .pixels = pixels}), data,
      ClassificationOptions{.batch = c.batch,
                            .seed = std::uint64_t(config.train.seed),
                            .label_smoothing = config.train.label_smoothing,
                            .augmentation = augmentation,
                            .mix = {.mixup = c.mixup, .cutmix = c.cutmix},
                            .mix_off_epoch = c.mix_off_epoch});
}

}  // namespace foldgrad
