#include "train/tasks/classification/likely_classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace foldgrad {
namespace {

LikelyClasses likeliest(const double* logits, const std::vector<std::string>& classes, std::size_t count) {
  std::vector<std::size_t> order(classes.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  const auto rank = [&](std::size_t k) { return std::isnan(logits[k]) ? -INFINITY : logits[k]; };
  std::ranges::stable_sort(order, std::greater(), rank);
  double sum = 0;
  for (const std::size_t k : order) sum += std::exp(logits[k] - logits[order[0]]);
  order.resize(std::min(order.size(), count));
  LikelyClasses found;
  for (const std::size_t k : order) found.push_back({classes[k], std::exp(logits[k] - logits[order[0]]) / sum});
  return found;
}

}  // namespace

std::vector<std::string> class_names(const ImageModel& model) {
  std::vector<std::string> names = model.config().class_names;
  for (std::int64_t k = std::int64_t(names.size()); k < model.config().classes; ++k)
    names.push_back(fmt::format("class {}", k));
  return names;
}

std::vector<LikelyClasses> classify(ImageModel& model, const Tensor& images, std::size_t count, NonFinite non_finite) {
  const NamedTensors inputs = to({{"images", images}}, model.device());
  Tape tape(/*recording=*/false);
  const Tensor logits =
      model.forward(inputs, {.tape = tape, .dtype = DType::f32}).value().to(Device::cpu).to(DType::f64);
  if (non_finite == NonFinite::refuse && !first_non_finite(logits).empty())
    refuse_non_finite("classify: the logits", model, inputs, DType::f32);
  const std::vector<std::string> classes = class_names(model);
  std::vector<LikelyClasses> found;
  for (std::int64_t i = 0; i < images.shape()[0]; ++i)
    found.push_back(likeliest(logits.data<double>() + i * logits.shape()[1], classes, count));
  return found;
}

}  // namespace foldgrad
