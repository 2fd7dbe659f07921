#include "train/tasks/classification/images/cifar.h"

#include <fmt/format.h>

#include <filesystem>

#include "engine/check.h"
#include "engine/files/atomic_file.h"
#include "train/data/lines.h"

namespace foldgrad {
namespace {

constexpr std::int64_t kPlane = kCifarSide * kCifarSide, kPixelBytes = kPlane * kColours;

std::vector<std::string> class_names(const std::string& directory, const CifarLayout& layout) {
  const std::string path = directory + "/" + layout.classes;
  if (!layout.names.empty() && !std::filesystem::exists(path)) return layout.names;
  std::vector<std::string> names = read_lines(path);
  std::erase(names, "");  // batches.meta.txt ends with an empty line
  if (names.empty()) throw FileError(path, "must have at least one class name, got none");
  return names;
}

std::int64_t records_in(const std::string& path, std::int64_t size, std::int64_t record_bytes) {
  const std::int64_t records = size / record_bytes;
  if (size == 0) throw FileError(path, "must have at least one record, got an empty file");
  if (size % record_bytes != 0)
    throw FileError(
        path,
        fmt::format("must consist of records of {} bytes, got {} bytes: record {}, which begins at byte {}, has {}",
                    record_bytes, size, records, records * record_bytes, size % record_bytes));
  return records;
}

std::vector<std::string> record_files(const std::string& directory, const CifarLayout& layout, ImagePart part) {
  std::vector<std::string> paths;
  for (const std::string& name : part == ImagePart::train ? layout.train : layout.test)
    paths.push_back(directory + "/" + name);
  return paths;
}

// Writes images [begin, end).
void write_records(const std::string& path, const ImageSet& images, std::int64_t begin, std::int64_t end) {
  AtomicFile file(path);
  std::vector<std::uint8_t> record(1 + kPixelBytes);
  for (std::int64_t i = begin; i < end; ++i) {
    record[0] = std::uint8_t(images.label(i));
    for (std::int64_t c = 0; c < kColours; ++c)
      for (std::int64_t p = 0; p < kPlane; ++p) record[1 + c * kPlane + p] = images.image(i)[p * kColours + c];
    file.write(record.data(), record.size());
  }
  file.commit();
}

void check_writable(const ImageSet& images) {
  check(images);
  FOLDGRAD_CHECK(images.height() == kCifarSide && images.width() == kCifarSide && images.classes.size() <= 256,
                 "the layout of CIFAR-10: images must be 32 x 32 with at most 256 classes, got {} x {} with {} classes",
                 images.height(), images.width(), images.classes.size());
}

}  // namespace

const CifarLayout& cifar10_layout() {
  static const CifarLayout layout{
      .directory = "cifar-10-batches-bin",
      .train = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
      .test = {"test_batch.bin"},
      .classes = "batches.meta.txt",
      .label_bytes = 1,
      .names = {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"}};
  return layout;
}

const CifarLayout& cifar100_layout() {
  static const CifarLayout layout{.directory = "cifar-100-binary",
                                  .train = {"train.bin"},
                                  .test = {"test.bin"},
                                  .classes = "fine_label_names.txt",
                                  .label_bytes = 2};
  return layout;
}

ImageSet read_records(const std::vector<std::string>& paths, std::int64_t label_bytes,
                      const std::vector<std::string>& classes, std::int64_t only) {
  const std::int64_t record_bytes = label_bytes + kPixelBytes;
  std::vector<std::string> files;
  std::int64_t images = 0;
  for (const std::string& path : paths) {
    const std::int64_t bytes = std::int64_t(files.emplace_back(read_file(path)).size());
    const std::int64_t records = records_in(path, bytes, record_bytes);
    if (only >= records)
      throw FileError(path, fmt::format("has {} records, counted from 0: there is no record {}", records, only));
    images += only < 0 ? records : 1;
  }
  ImageSet set{Tensor::empty({images, kCifarSide, kCifarSide, kColours}, DType::u8),
               Tensor::empty({images}, DType::i64), classes};
  std::uint8_t* pixels = set.pixels.data<std::uint8_t>();
  std::int64_t* labels = set.labels.data<std::int64_t>();
  for (std::size_t f = 0; f < files.size(); ++f) {
    const std::int64_t end = only < 0 ? std::int64_t(files[f].size()) / record_bytes : only + 1;
    for (std::int64_t r = only < 0 ? 0 : only; r < end; ++r, pixels += kPixelBytes) {
      const auto* plane = reinterpret_cast<const std::uint8_t*>(files[f].data()) + r * record_bytes + label_bytes;
      const std::int64_t label = *labels++ = plane[-1];
      if (label >= std::int64_t(classes.size()))
        throw FileError(paths[f], fmt::format("record {}, byte {}: a label must be below {}, got {}", r,
                                              r * record_bytes + label_bytes - 1, classes.size(), label));
      for (std::int64_t c = 0; c < kColours; ++c)
        for (std::int64_t p = 0; p < kPlane; ++p) pixels[p * kColours + c] = plane[c * kPlane + p];
    }
  }
  return set;
}

std::int64_t cifar_label_bytes(const std::string& path) {
  const std::uint64_t size = InputFile(path).size();
  return size % (1 + kPixelBytes) != 0 && size % (2 + kPixelBytes) == 0 ? 2 : 1;
}

std::vector<std::string> cifar_files(const std::string& directory, const CifarLayout& layout, ImagePart part) {
  std::vector<std::string> paths = record_files(directory, layout, part);
  if (const std::string names = directory + "/" + layout.classes; file_exists(names)) paths.push_back(names);
  return paths;
}

ImageSet read_cifar(const std::string& directory, const CifarLayout& layout, ImagePart part) {
  return read_records(record_files(directory, layout, part), layout.label_bytes, class_names(directory, layout));
}

void write_cifar10(const std::string& directory, const ImageSet& train, const ImageSet& test) {
  const CifarLayout& layout = cifar10_layout();
  check_writable(train);
  check_writable(test);
  FOLDGRAD_CHECK(train.classes == test.classes, "the layout of CIFAR-10: both parts must have the same classes");
  const std::int64_t files = std::int64_t(layout.train.size());
  FOLDGRAD_CHECK(train.size() >= files, "the layout of CIFAR-10: there must be at least {} training images, got {}",
                 files, train.size());
  make_directories(directory);
  for (std::int64_t i = 0; i < files; ++i)
    write_records(directory + "/" + layout.train[i], train, train.size() * i / files, train.size() * (i + 1) / files);
  write_records(directory + "/" + layout.test[0], test, 0, test.size());
  write_file_atomically(directory + "/" + layout.classes, fmt::format("{}\n", fmt::join(train.classes, "\n")));
}

}  // namespace foldgrad
