// foldgrad classify: the likeliest classes of images.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "engine/dispatch.h"
#include "train/checkpoints/checkpoint.h"
#include "train/checkpoints/model_directory.h"
#include "train/commands/commands.h"
#include "train/commands/images_given.h"
#include "train/data/images/set.h"
#include "train/system/device.h"
#include "train/system/exit_code.h"
#include "train/tasks/classification_inputs.h"

namespace foldgrad {
namespace {

constexpr std::size_t kShown = 5, kBatch = 128;

struct ClassifyOptions {
  std::string model, device = "auto";
  std::vector<std::string> images;
  NonFinite non_finite = NonFinite::refuse;
  bool json = false;
};

struct Answer {
  std::string image, label;                             // the label where the file has one
  std::vector<std::pair<std::string, double>> classes;  // with probabilities, the likeliest first
};

// Returns the likeliest classes of a row of logits; of equal ones the first counts as larger, and NaN as smallest.
std::vector<std::pair<std::string, double>> likeliest(const double* logits, const std::vector<std::string>& classes) {
  std::vector<std::size_t> order(classes.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  const auto rank = [&](std::size_t k) { return std::isnan(logits[k]) ? -INFINITY : logits[k]; };
  std::ranges::stable_sort(order, std::greater(), rank);
  double sum = 0;
  for (const std::size_t k : order) sum += std::exp(logits[k] - logits[order[0]]);
  order.resize(std::min(order.size(), kShown));
  std::vector<std::pair<std::string, double>> found;
  for (const std::size_t k : order) found.push_back({classes[k], std::exp(logits[k] - logits[order[0]]) / sum});
  return found;
}

// Answers to images that are read a batch at a time; none is printed before all are read.
class Classifier {
 public:
  explicit Classifier(const ClassifyOptions& options)
      : options_(options),
        device_(require_device(options.device)),
        model_(load_model(options.model, DType::f32, device_, options.non_finite)) {
    const std::optional<ImageClasses> images = image_classes(*model_);
    if (!images)
      throw CheckpointError(fmt::format("{}: must hold a model that tells images apart, got {}",
                                        find_model_directory(options.model), model_->family()));
    images_ = *images;
  }

  std::vector<Answer> classify() {
    for (const std::string& argument : options_.images)
      for_each_image(argument, images_.size, images_.classes, [&](GivenImage image) {
        waiting_.push_back(std::move(image));
        if (waiting_.size() == kBatch) answer();
      });
    answer();
    return std::move(answers_);
  }

 private:
  void answer() {
    if (waiting_.empty()) return;
    const std::int64_t B = std::int64_t(waiting_.size()), S = images_.size, K = std::int64_t(images_.classes.size());
    const Tensor images = Tensor::empty({B, S, S, kColours}, DType::u8);
    std::uint8_t* out = images.data<std::uint8_t>();
    for (const GivenImage& image : waiting_) out = std::ranges::copy(image.pixels, out).out;
    const NamedTensors inputs = to({{"images", images}}, device_);
    Tape tape(/*recording=*/false);
    const Tensor logits =
        model_->forward(inputs, {.tape = tape, .dtype = DType::f32}).value().to(Device::cpu).to(DType::f64);
    if (options_.non_finite == NonFinite::refuse && !first_non_finite(logits).empty())
      refuse_non_finite("classify: the logits", *model_, inputs, DType::f32);
    for (std::int64_t b = 0; b < B; ++b)
      answers_.push_back(
          {waiting_[b].name, waiting_[b].label, likeliest(logits.data<double>() + b * K, images_.classes)});
    waiting_.clear();
  }

  const ClassifyOptions& options_;
  Device device_;
  std::unique_ptr<Model> model_;
  ImageClasses images_;
  std::vector<GivenImage> waiting_;
  std::vector<Answer> answers_;
};

nlohmann::ordered_json json_of(const Answer& answer) {
  nlohmann::ordered_json one{{"image", answer.image}};
  if (!answer.label.empty()) one["label"] = answer.label;
  one["classes"] = nlohmann::ordered_json::array();
  for (const auto& [name, p] : answer.classes) one["classes"].push_back({{"class", name}, {"probability", p}});
  return one;
}

void print(const Answer& answer) {
  std::string line = answer.image;
  if (!answer.label.empty()) line += fmt::format(" ({})", answer.label);
  for (std::size_t i = 0; i < answer.classes.size(); ++i)
    line += fmt::format("{} {} {:.4f}", i == 0 ? ":" : ",", answer.classes[i].first, answer.classes[i].second);
  fmt::print("{}\n", line);
}

int classify(const ClassifyOptions& options) {
  const std::vector<Answer> answers = Classifier(options).classify();
  auto all = nlohmann::ordered_json::array();
  for (const Answer& answer : answers) options.json ? all.push_back(json_of(answer)) : print(answer);
  if (options.json) print_json(all);
  return kExitOk;
}

}  // namespace

Action add_classify(CLI::App& command) {
  const auto o = std::make_shared<ClassifyOptions>();
  command.add_option("MODEL", o->model, "Model directory, checkpoint or run")->required();
  command
      .add_option("IMAGES", o->images,
                  "PNG or JPEG files, or files of CIFAR's records: FILE.bin has all of them, FILE.bin:7 the eighth")
      ->required();
  add_device_option(command, o->device);
  command.add_flag("--json", o->json, "Print JSON");
  add_non_finite_option(command, o->non_finite);
  command.footer("Exit codes: 0, 2 usage, 3 images, 4 the model cannot be loaded, 5 a number is not finite, 6 device.");
  return [o] { return classify(*o); };
}

}  // namespace foldgrad
