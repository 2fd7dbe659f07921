#include "train/tasks/classification/classification.h"

#include <cmath>
#include <filesystem>
#include <sstream>

#include "engine/check.h"
#include "engine/files/file.h"
#include "engine/files/safetensors.h"
#include "engine/parallel/in_turns.h"
#include "train/checks/model_checks.h"
#include "train/data/data_sets.h"
#include "train/loop/permutation.h"
#include "train/system/digest.h"
#include "train/system/printable.h"
#include "train/tasks/classification/images/cifar.h"
#include "train/tasks/classification/images/folder.h"
#include "train/tasks/classification/images/shapes.h"
#include "train/tasks/classification/mix.h"

namespace foldgrad {
namespace {

// A fixed seed, so that all runs on these files validate on the same images.
constexpr std::uint64_t kHoldOutSeed = 1;

ImageSet draw_shapes(const ImageConfig& config, ImagePart part) {
  if (part == ImagePart::test) return shapes::sample(part, shapes::kTestImages);
  if (part == ImagePart::valid) return shapes::sample(part, config.valid_images);
  return shapes::sample(part, config.train_images > 0 ? config.train_images : shapes::kTrainImages);
}

bool is_folder(ImageTask task) { return task == ImageTask::folder || task == ImageTask::tinyimagenet; }

// Reads a part's images and adds the digests of its files. `classes` are the training images' classes, if known.
ImageSet read_part(const ImageConfig& config, const std::string& directory, ImagePart part,
                   const std::vector<std::string>& classes, std::map<std::string, std::string>& digests) {
  if (config.task == ImageTask::shapes) return draw_shapes(config, part);
  if (is_folder(config.task)) {
    FOLDGRAD_CHECK(!config.directory.empty(), "data.task = \"{}\" needs data.directory, the path of the folder",
                   name(config.task));
    const FolderLayout layout = config.task == ImageTask::folder ? FolderLayout::classes : FolderLayout::tiny_imagenet;
    ImageSet images = read_folder(directory, part, config.image_size, classes, layout);
    digests[part == ImagePart::train ? "train" : "test"] = digest_of(images);
    return images;
  }
  const CifarLayout& layout = config.task == ImageTask::cifar100 ? cifar100_layout() : cifar10_layout();
  const std::string files = config.directory.empty() ? directory + "/" + layout.directory : directory;
  if (!std::filesystem::is_directory(files))
    throw FileError(files, "there is no such directory; CIFAR's files are expected " + where_data_lies(files));
  ImageSet images = read_cifar(files, layout, part);
  for (const std::string& path : cifar_files(files, layout, part))
    digests[std::filesystem::path(path).filename()] = sha256_of_file(path);
  return images;
}

Augmentation augmentation_of(const ImageConfig& config, const ImageStatistics& pixels = {}) try {
  std::istringstream words(config.augment);
  Augmentation all = augmentation({std::istream_iterator<std::string>(words), {}});
  for (std::size_t k = 0; k < all.fill.size(); ++k) all.fill[k] = std::uint8_t(std::lround(255 * pixels.mean[k]));
  if (config.fill == CropFill::mean) all.border = all.fill;
  return all;
} catch (const std::invalid_argument& e) {
  throw ConfigError(fmt::format("data.augment: {}", e.what()));
}

// Returns the statistics of the images. Sets the deviation of a constant channel to 1, since images are divided by the
// deviation.
ImageStatistics statistics_of(const ImageSet& images) {
  ImageStatistics pixels = image_statistics(images);
  for (double& std : pixels.std)
    if (std == 0) std = 1;
  return pixels;
}

ImageSplit whole(const ImageSet& images) { return {images, counting(images.size())}; }

// Scores an epoch of batches, with logits in f32.
ClassificationScores scores_of(Model& model, ImageBatches& batches, const std::vector<std::string>& classes,
                               Communicator* communicator) {
  const auto logits = in_turns<float>(communicator, batches.per_epoch(), [&](std::int64_t i) {
    Tape tape(/*recording=*/false);
    const Var y = model.forward({{"images", batches.at(i).images}}, {.tape = tape, .dtype = DType::f32});
    return y.value().values<float>();
  });
  ClassificationScores scores(classes);
  for (std::int64_t i = 0; i < batches.per_epoch(); ++i) {
    const ImageBatch batch = batches.at(i);
    scores.add(Tensor::of({batch.labels.size(), std::int64_t(classes.size())}, logits[std::size_t(i)]), batch.labels,
               batch.images);
  }
  return scores;
}

}  // namespace

void ImageConfig::validate() const {
  (void)augmentation_of(*this);
  if (mix_off_epoch > 0 && mixup == 0 && cutmix == 0)
    throw ConfigError(
        "train.mix_off_epoch needs train.mixup or train.cutmix: one of them must be above 0, got 0 for both");
  if (task != ImageTask::shapes) return;
  for (const auto& [key, images] : {std::pair("data.train_images", train_images), {"data.valid_images", valid_images}})
    if (images > shapes::kMostImages)
      throw ConfigError(
          fmt::format("{} must be at most {} with data.task = \"shapes\", got {}", key, shapes::kMostImages, images));
}

ClassificationData read_images(const ImageConfig& config, const std::string& directory) {
  ClassificationData data;
  const auto read = [&](ImagePart part) {
    return whole(read_part(config, directory, part, data.train.images.classes, data.digests));
  };
  data.train = read(ImagePart::train);
  data.valid_is_test = config.valid_images == 0;
  if (data.valid_is_test || config.task == ImageTask::shapes) {
    data.valid = read(data.valid_is_test ? ImagePart::test : ImagePart::valid);
  } else {
    if (config.valid_images >= data.train.images.size())
      throw ConfigError(fmt::format("data.valid_images = {} must leave images to train on: {} has {}",
                                    config.valid_images, directory, data.train.images.size()));
    HoldOut parts = hold_out(data.train.images.size(), config.valid_images, kHoldOutSeed);
    data.valid = {data.train.images, std::move(parts.valid)};
    data.train.rows = std::move(parts.train);
  }
  if (config.train_images > 0 && config.train_images < std::int64_t(data.train.rows.size()))
    data.train.rows.resize(std::size_t(config.train_images));
  return data;
}

ImageSplit read_split(const ImageConfig& config, const std::string& directory, const std::string& split) {
  FOLDGRAD_CHECK(split == "train" || split == "valid" || split == "test",
                 "the split of images must be train, valid or test, got {}", split);
  if (split == "test") {
    std::map<std::string, std::string> unused;
    std::vector<std::string> classes;  // the test folders need not have every class
    if (is_folder(config.task)) classes = read_part(config, directory, ImagePart::train, {}, unused).classes;
    return whole(read_part(config, directory, ImagePart::test, classes, unused));
  }
  const ClassificationData data = read_images(config, directory);
  if (split == "train") return data.train;
  FOLDGRAD_CHECK(!data.valid_is_test,
                 "there is no split valid: with data.valid_images = 0, validation uses the test images");
  return data.valid;
}

Classification::Classification(std::unique_ptr<Model> model, const ClassificationData& data,
                               const ExperimentConfig& config)
    : Task(*model, {.deciding_score = "top1",
                    .unit_of_work = "images",
                    .validates_on_test = data.valid_is_test,
                    .data_digests = data.digests}),
      model_(std::move(model)),
      data_(data),
      config_(config.data.as<ImageConfig>()),
      seed_(std::uint64_t(config.train.seed)),
      augmentation_(augmentation_of(config_, static_cast<const ImageModel&>(*model_).config().pixels)),
      batches_(data.train.images, data.train.rows,
               {.size = config_.batch, .seed = seed_, .augmentation = augmentation_, .prefetch = true}),
      valid_(data.valid.images, data.valid.rows, {.size = config_.batch, .training = false}) {}

Examples Classification::next() {
  const DataCursor at = batches_.cursor();
  const ImageBatch batch = batches_.next();
  const std::int64_t images = batch.labels.size();
  const bool mixes = config_.mixup > 0 || config_.cutmix > 0;
  if (!mixes || (config_.mix_off_epoch > 0 && at.epoch >= config_.mix_off_epoch))
    return {{{"images", batch.images}, {"target", batch.labels}}, images, images};
  const Mix drawn = draw_mix({.mixup = config_.mixup, .cutmix = config_.cutmix}, data_.train.images.height(),
                             data_.train.images.width(), seed_, at.epoch * batches_.per_epoch() + at.batch);
  const MixedImages mixed = mix(batch.images, batch.labels, drawn);
  const NamedTensors inputs{
      {"images", mixed.images}, {"target", mixed.labels}, {"second_target", mixed.others}, {"share", mixed.lambda}};
  return {inputs, images, images};
}

Validation Classification::validate(Communicator* communicator) {
  const ClassificationScores scores = scores_of(*model_, valid_, data_.valid.images.classes, communicator);
  auto exhibits = nlohmann::ordered_json::array();
  for (const auto& exhibit : {confusion_exhibit(scores), mistakes_exhibit(scores),
                              augmented_exhibit(augmentation_, data_.train.images, data_.train.rows, seed_)})
    if (!exhibit.is_null()) exhibits.push_back(exhibit);
  Validation v = scores.validation();
  v.exhibits = exhibits.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  return v;
}

namespace {

NamedTensors read_image_inputs(const Model& model, const std::string& path) {
  const std::int64_t S = static_cast<const ImageModel&>(model).config().image_size;
  const NamedTensors tensors = read_safetensors(path).tensors;
  for (const auto& [name, tensor] : tensors)
    if (name != "images") throw FileError(path, fmt::format("must have no tensor other than images, got {}", name));
  const auto found = tensors.find("images");
  if (found == tensors.end()) throw FileError(path, fmt::format("must have a tensor images [images, {}, {}, 3]", S, S));
  const Tensor& t = found->second;
  const bool known = t.dtype() == DType::u8 || t.dtype() == DType::f32 || t.dtype() == DType::f64;
  if (!known || t.size() == 0 || t.shape().rank() != 4 || t.shape() != Shape{t.shape()[0], S, S, kImageChannels})
    throw FileError(path, fmt::format("images must be u8, f32 or f64 [images, {}, {}, 3], got {}", S, S, describe(t)));
  if (const std::string bad = first_non_finite(t); !bad.empty())
    throw FileError(path, fmt::format("images must be finite, got {}", bad));
  return tensors;
}

Evaluation evaluate_classification(Model& model, const ModelData& data, const EvaluationOptions& options) {
  FOLDGRAD_CHECK(
      data.source.empty() && data.reference.empty() && options.hypotheses.empty(),
      "eval: --source, --reference and --hypotheses are only for translation models, got a model of family \"{}\"",
      model.family());
  const ExperimentConfig config = data.read_config(model);
  const auto& images = config.data.as<ImageConfig>();
  const ImageModelConfig& sizes = static_cast<const ImageModel&>(model).config();
  ImageSplit split = read_split(images, data.data_root(config), data.split);
  const std::vector<std::string>& classes = split.images.classes;
  FOLDGRAD_CHECK(split.images.height() == sizes.image_size && split.images.width() == sizes.image_size &&
                     std::int64_t(classes.size()) == sizes.classes,
                 "the model needs images of {0} x {0} pixels and {1} classes, got {2} x {3} and {4}", sizes.image_size,
                 sizes.classes, split.images.height(), split.images.width(), classes.size());
  if (options.communicator) require_alike(*options.communicator, {{"images", digest_of(split.images)}});
  ImageBatches batches(split.images, std::move(split.rows), {.size = images.batch, .training = false});
  const Validation v = scores_of(model, batches, classes, options.communicator).validation();
  if (options.non_finite == NonFinite::refuse && !std::isfinite(v.loss))
    throw NonFiniteError(fmt::format("eval: the loss on the split {} is not finite", data.split));
  nlohmann::ordered_json json{{"model", data.directory}, {"split", data.split}};
  for (const auto& [name, value] : v.scores) json[name] = value;
  json["text"] = v.text;
  json["samples"] = v.samples;
  return {fmt::format("{}: {}\n{}", data.split, v.text, v.samples), json};
}

ExampleSet image_examples(const Model& model, const ModelData& data) {
  FOLDGRAD_CHECK(data.source.empty() && data.reference.empty(),
                 "--source and --reference are only for translation models, got a model of family \"{}\"",
                 model.family());
  const ExperimentConfig config = data.read_config(model);
  const auto split =
      std::make_shared<ImageSplit>(read_images(config.data.as<ImageConfig>(), data.data_root(config)).valid);
  const std::int64_t side = static_cast<const ImageModel&>(model).config().image_size;
  const ImageSet& images = split->images;
  FOLDGRAD_CHECK(images.height() == side && images.width() == side,
                 "the model needs images of {} x {} pixels, got {} x {}", side, side, images.height(), images.width());
  const auto inputs = [split](const std::vector<std::int64_t>& examples) -> NamedTensors {
    std::vector<std::int64_t> rows;
    for (const std::int64_t i : examples) rows.push_back(split->rows[std::size_t(i)]);
    ImageBatches batch(split->images, rows, {.size = std::int64_t(rows.size()), .training = false});
    return {{"images", batch.next().images}};
  };
  return {.size = std::int64_t(split->rows.size()), .inputs = inputs};
}

std::vector<CheckResult> check_classification(Model& model, Model&, const NamedTensors& inputs) {
  const LogitsOf logits_of = [&](const NamedTensors& images) { return inference_logits(model, images, DType::f64); };
  return {check_others("image", logits_of, inputs)};
}

// Throws ConfigError if the training images do not fill a batch, or if labels are smoothed over a single class.
void require_trainable(const ClassificationData& data, const ImageConfig& config, double label_smoothing,
                       const std::string& directory) {
  const auto images = std::int64_t(data.train.rows.size());
  const std::string from = config.task == ImageTask::shapes ? "data.task = \"shapes\"" : directory;
  if (images < config.batch)
    throw ConfigError(
        fmt::format("{}: train.batch = {} must be at most the number of training images, which is {} with "
                    "data.train_images = {} and data.valid_images = {}",
                    from, config.batch, images, config.train_images, config.valid_images));
  const std::vector<std::string>& classes = data.train.images.classes;
  if (classes.size() == 1 && label_smoothing > 0)
    throw ConfigError(fmt::format("{}: has only one class, {}; in this case train.label_smoothing must be 0, got {}",
                                  from, in_quotes(classes[0]), label_smoothing));
}

std::unique_ptr<Task> make_classification(ExperimentConfig config, const std::string& data_directory,
                                          const std::string&, Device device) {
  const auto& keys = config.data.as<ImageConfig>();
  const ClassificationData data = read_images(keys, data_directory);
  require_trainable(data, keys, config.train.label_smoothing, data_directory);
  const ImageSet& images = data.train.images;
  auto& model = static_cast<ImageModelConfig&>(config.blocks());
  model.image_size = images.height(), model.pixels = statistics_of(images);
  model.classes = std::int64_t(images.classes.size()), model.class_names = images.classes;
  return std::make_unique<Classification>(new_model(config, device), data, config);
}

}  // namespace

const TaskKind kClassification{.keys = [] { return Section::of(ImageConfig()); },
                               .make = make_classification,
                               .checks = check_classification,
                               .read_inputs = read_image_inputs,
                               .evaluate = evaluate_classification,
                               .examples = image_examples};

}  // namespace foldgrad
