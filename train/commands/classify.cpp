// foldgrad classify: prints the most likely classes of images.
#include <algorithm>
#include <charconv>
#include <functional>

#include "engine/files/file.h"
#include "models/images/model.h"
#include "train/commands/command.h"
#include "train/commands/load_model_as.h"
#include "train/system/device.h"
#include "train/tasks/classification/images/cifar.h"
#include "train/tasks/classification/images/picture.h"
#include "train/tasks/classification/likely_classes.h"

namespace foldgrad {
namespace {

constexpr std::size_t kShown = 5, kBatch = 128;

struct ClassifyOptions {
  std::string model, device = "auto";
  std::vector<std::string> images;
  NonFinite non_finite = NonFinite::refuse;
};

// Records of a file. "a.bin:7" means record 7 of a.bin, unless a file has this name.
struct Records {
  std::string path;
  std::int64_t only = -1;  // -1 means all records
};

Records records_of(const std::string& argument) {
  const std::size_t colon = argument.rfind(':');
  if (colon == argument.npos || file_exists(argument)) return {argument};
  std::int64_t record = -1;
  const char *begin = argument.data() + colon + 1, *end = argument.data() + argument.size();
  if (std::from_chars(begin, end, record).ptr != end || record < 0) return {argument};
  return {argument.substr(0, colon), record};
}

struct GivenImage {
  std::string name, label;           // `name` is FILE or FILE:RECORD, `label` is a record's class
  std::vector<std::uint8_t> pixels;  // [size, size, 3]
};

// Calls take() for each image in `argument`, in order. `argument` is a PNG or JPEG file, FILE.bin with all its records,
// or one record, FILE.bin:RECORD. Images that are not size x size are cropped and scaled by square(). Throws FileError.
void for_each_image(const std::string& argument, std::int64_t size, const std::vector<std::string>& classes,
                    const std::function<void(GivenImage)>& take) {
  const auto [path, only] = records_of(argument);
  if (!path.ends_with(".bin")) {
    take({argument, "", square(read_picture(argument), size).pixels});
    return;
  }
  const ImageSet set = read_records({path}, cifar_label_bytes(path), classes, only);
  for (std::int64_t r = 0; r < set.size(); ++r) {
    const Picture picture{kCifarSide, kCifarSide, {set.image(r), set.image(r) + set.image_bytes()}};
    take({fmt::format("{}:{}", path, only < 0 ? r : only), classes[set.label(r)], square(picture, size).pixels});
  }
}

// Adds the most likely classes of an image to the answer.
void add(const GivenImage& image, const LikelyClasses& classes, Answer& answer) {
  answer.text += image.name;
  nlohmann::ordered_json one{{"image", image.name}};
  if (!image.label.empty()) answer.text += fmt::format(" ({})", image.label), one["label"] = image.label;
  const char* before = ":";
  for (const auto& [name, p] : classes) {
    answer.text += fmt::format("{} {} {:.4f}", before, name, p);
    one["classes"].push_back({{"class", name}, {"probability", p}});
    before = ",";
  }
  answer.text += "\n";
  answer.json.push_back(std::move(one));
}

// Returns the pixels of a batch, u8 [images, size, size, 3].
Tensor pixels_of(const std::vector<GivenImage>& batch, std::int64_t size) {
  const Tensor images = Tensor::empty({std::int64_t(batch.size()), size, size, kColours}, DType::u8);
  std::uint8_t* out = images.data<std::uint8_t>();
  for (const GivenImage& image : batch) out = std::ranges::copy(image.pixels, out).out;
  return images;
}

// Reads PNG and JPEG files one batch at a time, and record files one file at a time.
Answer classify_files(const ClassifyOptions& o) {
  const auto model = load_model_as<ImageModel>("a model that classifies images", o.model, DType::f32,
                                               require_device(o.device), o.non_finite);
  const std::int64_t size = model->config().image_size;
  const std::vector<std::string> classes = class_names(*model);
  Answer answer{.json = nlohmann::ordered_json::array()};
  std::vector<GivenImage> batch;
  const auto answer_batch = [&] {
    if (batch.empty()) return;
    const std::vector<LikelyClasses> found = classify(*model, pixels_of(batch, size), kShown, o.non_finite);
    for (std::size_t b = 0; b < batch.size(); ++b) add(batch[b], found[b], answer);
    batch.clear();
  };
  for (const std::string& argument : o.images)
    for_each_image(argument, size, classes, [&](GivenImage image) {
      batch.push_back(std::move(image));
      if (batch.size() == kBatch) answer_batch();
    });
  answer_batch();
  return answer;
}

}  // namespace

Action add_classify(CLI::App& command) {
  const auto o = std::make_shared<ClassifyOptions>();
  add_model_option(command, o->model);
  command
      .add_option("IMAGES", o->images,
                  "PNG or JPEG files, or CIFAR record files: FILE.bin means all records in the file, FILE.bin:7 only "
                  "the eighth")
      ->required();
  add_device_option(command, o->device);
  add_json_option(command);
  add_non_finite_option(command, o->non_finite);
  command.footer(
      "Exit codes: 0 success, 2 usage error, 3 an image cannot be read, 4 the model cannot be loaded, 5 a number is "
      "not finite, 6 device error.");
  return [o] { return classify_files(*o); };
}

}  // namespace foldgrad
