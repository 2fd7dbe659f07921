#include "train/tasks/classification_data.h"

#include <filesystem>
#include <numeric>

#include "engine/check.h"
#include "train/data/data_sets.h"
#include "train/data/images/batches.h"
#include "train/data/images/cifar.h"
#include "train/data/images/folder.h"
#include "train/data/images/shapes.h"
#include "train/system/digest.h"

namespace foldgrad {
namespace {

// So that all runs on these files validate on the same images.
constexpr std::uint64_t kHoldOutSeed = 1;

std::vector<std::int64_t> all_rows(const ImageSet& images) {
  std::vector<std::int64_t> rows(std::size_t(images.size()));
  std::iota(rows.begin(), rows.end(), std::int64_t(0));
  return rows;
}

ImageSet draw_shapes(const ImageConfig& config, ImagePart part) {
  switch (part) {
    case ImagePart::train:
      return shapes::sample(part, config.train_images > 0 ? config.train_images : shapes::kTrainImages);
    case ImagePart::valid:
      return shapes::sample(part, config.valid_images);
    case ImagePart::test:
      break;
  }
  return shapes::sample(part, shapes::kTestImages);
}

// The images of a part; the digests of its files are added. `classes`: those of the images to train on, if known.
ImageSet read_part(const ImageConfig& config, const std::string& directory, ImagePart part,
                   const std::vector<std::string>& classes, std::map<std::string, std::string>& digests) {
  if (config.task == ImageTask::shapes) return draw_shapes(config, part);
  if (config.task == ImageTask::folder) {
    FOLDGRAD_CHECK(!config.directory.empty(), "data.task = \"folder\" needs data.directory, the folder");
    ImageSet images = read_folder(directory, part, config.image_size, classes);
    digests[part == ImagePart::train ? "train" : "test"] = digest_of(images);
    return images;
  }
  const CifarLayout& layout = config.task == ImageTask::cifar100 ? cifar100_layout() : cifar10_layout();
  const std::string files = config.directory.empty() ? directory + "/" + layout.directory : directory;
  if (!std::filesystem::is_directory(files))
    throw FileError(files, "there is no such directory; the files of CIFAR are looked for " + where_data_lies(files));
  ImageSet images = read_cifar(files, layout, part);
  for (const std::string& path : cifar_files(files, layout, part))
    digests[std::filesystem::path(path).filename()] = sha256_of_file(path);
  return images;
}

}  // namespace

ClassificationData read_images(const ImageConfig& config, const std::string& directory) {
  ClassificationData data;
  const auto read = [&](ImagePart part) {
    return read_part(config, directory, part, data.train.classes, data.digests);
  };
  data.train = read(ImagePart::train);
  data.train_rows = all_rows(data.train);
  data.valid_is_test = config.valid_images == 0;
  if (data.valid_is_test || config.task == ImageTask::shapes) {
    data.valid = read(data.valid_is_test ? ImagePart::test : ImagePart::valid);
    data.valid_rows = all_rows(data.valid);
  } else {
    HoldOut parts = hold_out(data.train.size(), config.valid_images, kHoldOutSeed);
    data.valid = data.train;
    data.train_rows = std::move(parts.train), data.valid_rows = std::move(parts.valid);
  }
  if (config.train_images > 0 && config.train_images < std::int64_t(data.train_rows.size()))
    data.train_rows.resize(std::size_t(config.train_images));
  return data;
}

ImageSplit read_split(const ImageConfig& config, const std::string& directory, const std::string& split) {
  FOLDGRAD_CHECK(split == "train" || split == "valid" || split == "test",
                 "the split of images must be train, valid or test, got {}", split);
  if (split == "test") {
    std::map<std::string, std::string> unused;
    const auto read = [&](ImagePart part, const std::vector<std::string>& classes) {
      return read_part(config, directory, part, classes, unused);
    };
    // The folders of the test need not have every class.
    const ImageSet images = read(ImagePart::test, config.task == ImageTask::folder ? read(ImagePart::train, {}).classes
                                                                                   : std::vector<std::string>());
    return {images, all_rows(images)};
  }
  const ClassificationData data = read_images(config, directory);
  if (split == "train") return {data.train, data.train_rows};
  FOLDGRAD_CHECK(!data.valid_is_test,
                 "there is no split valid: with data.valid_images = 0 the test images are validated on");
  return {data.valid, data.valid_rows};
}

}  // namespace foldgrad
