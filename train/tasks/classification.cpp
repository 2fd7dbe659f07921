#include "train/tasks/classification.h"

#include <cmath>
#include <filesystem>
#include <numeric>
#include <sstream>

#include "train/data/images/cifar.h"
#include "train/data/images/folder.h"
#include "train/data/images/shapes.h"
#include "train/system/digest.h"
#include "train/tasks/classification_scores.h"

namespace foldgrad {
namespace {

// So that all runs on these files validate on the same images.
constexpr std::uint64_t kHoldOutSeed = 1;

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

std::vector<std::int64_t> all_rows(const ImageSet& images) {
  std::vector<std::int64_t> rows(std::size_t(images.size()));
  std::iota(rows.begin(), rows.end(), std::int64_t(0));
  return rows;
}

// The images of a part; the digests of its files are added. `classes`: those of the images to train on, if known.
ImageSet read_part(const ImageConfig& config, const std::string& directory, ImagePart part,
                   const std::vector<std::string>& classes, std::map<std::string, std::string>& digests) {
  if (config.task == "folder") {
    ImageSet images = read_folder(directory, part, config.image_size, classes);
    digests[part == ImagePart::train ? "train" : "test"] = digest_of(images);
    return images;
  }
  if (config.task == "shapes") {
    const std::int64_t some = config.train_images + config.valid_images;
    const std::int64_t to_train = config.train_images > 0 ? some : shapes::kTrainImages;
    return shapes::sample(part, part == ImagePart::train ? to_train : shapes::kTestImages);
  }
  const CifarLayout& layout = config.task == "cifar100" ? cifar100_layout() : cifar10_layout();
  const std::string files = config.directory.empty() ? directory + "/" + layout.directory : directory;
  ImageSet images = read_cifar(files, layout, part);
  for (const std::string& path : cifar_files(files, layout, part))
    digests[std::filesystem::path(path).filename()] = sha256_of_file(path);
  return images;
}

VitConfig vit_config(const ExperimentConfig& config, const ImageSet& images) {
  VitConfig vit = config.vit;
  vit.image_size = images.height();
  vit.classes = std::int64_t(images.classes.size()), vit.class_names = images.classes;
  vit.pixels = statistics_of(images);
  return vit;
}

}  // namespace

Classification::Classification(std::unique_ptr<Model> model, const ClassificationData& data,
                               const ClassificationOptions& options)
    : model_(std::move(model)),
      options_(options),
      digests_(data.digests),
      shown_(data.train_rows),
      batches_(data.train, data.train_rows,
               {.size = options.batch, .seed = options.seed, .augmentation = options.augmentation, .prefetch = true}),
      valid_(data.valid, data.valid_rows, {.size = options.batch, .training = false}) {}

Examples Classification::next() {
  const ImageBatch batch = batches_.next();
  const std::int64_t images = batch.labels.size();
  return {{{"images", batch.images}, {"target", batch.labels}}, images, images};
}

Var Classification::loss(const Examples& examples, const ForwardPass& pass) {
  return model_->loss(to(examples.inputs, model_->device()), pass, options_.label_smoothing);
}

Validation Classification::validate() {
  ClassificationScores scores(valid_.images().classes);
  WorstMistakes mistakes;
  valid_.seek({});
  for (std::int64_t i = 0; i < valid_.per_epoch(); ++i) {
    const ImageBatch batch = valid_.next();
    Tape tape(/*recording=*/false);
    const NamedTensors inputs = to({{"images", batch.images}}, model_->device());
    const Var logits = model_->forward(inputs, {.tape = tape, .dtype = DType::f32});
    const Tensor on_host = logits.value().to(Device::cpu);
    scores.add(on_host, batch.labels);
    mistakes.add(on_host, batch.images, batch.labels);
  }
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

ClassificationData read_images(const ImageConfig& config, const std::string& directory) {
  ClassificationData data;
  const auto read = [&](ImagePart part) {
    return read_part(config, directory, part, data.train.classes, data.digests);
  };
  data.train = read(ImagePart::train);
  data.train_rows = all_rows(data.train);
  if (config.valid_images > 0) {
    HoldOut parts = hold_out(data.train.size(), config.valid_images, kHoldOutSeed);
    data.valid = data.train;
    data.train_rows = std::move(parts.train), data.valid_rows = std::move(parts.valid);
  } else {
    data.valid = read(ImagePart::test);
    data.valid_rows = all_rows(data.valid);
  }
  if (config.train_images > 0 && config.train_images < std::int64_t(data.train_rows.size()))
    data.train_rows.resize(std::size_t(config.train_images));
  return data;
}

std::unique_ptr<Model> smallest_vit(const ExperimentConfig& config) {
  (void)augmentation_of(config.images);
  VitConfig vit = config.vit;
  vit.image_size = vit.patch, vit.classes = 2;  // the smallest: the data decide
  vit.validate();
  vit.layers = 1;
  return std::make_unique<Vit>(vit, std::nullopt);
}

std::unique_ptr<Task> make_classification(const ExperimentConfig& config, const std::string& data_directory,
                                          const std::string&, Device device) {
  const ClassificationData data = read_images(config.images, data_directory);
  const auto seed = std::uint64_t(config.train.seed);
  const VitConfig vit = vit_config(config, data.train);
  Augmentation augmentation = augmentation_of(config.images);
  for (std::size_t c = 0; c < augmentation.fill.size(); ++c)
    augmentation.fill[c] = std::uint8_t(std::lround(255 * vit.pixels.mean[c]));
  return std::make_unique<Classification>(std::make_unique<Vit>(vit, seed, DType::f32, device), data,
                                          ClassificationOptions{.batch = config.train.batch,
                                                                .seed = seed,
                                                                .label_smoothing = config.train.label_smoothing,
                                                                .augmentation = augmentation});
}

}  // namespace foldgrad
