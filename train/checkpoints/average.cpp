#include "train/checkpoints/average.h"

#include <cmath>

#include "engine/check.h"
#include "engine/dtype.h"

namespace foldgrad {
namespace {

Tensor average(const std::vector<Tensor>& tensors) {
  const Tensor result = Tensor::empty(tensors[0].shape(), tensors[0].dtype());
  std::vector<double> sums(std::size_t(result.size()));
  for (const Tensor& t : tensors) {
    const std::vector<double> values = t.to(DType::f64).values<double>();
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += values[i];
  }
  for (double& sum : sums) {
    sum /= double(tensors.size());                            // [AVG-1]
    if (!is_floating(result.dtype())) sum = std::floor(sum);  // [AVG-2]
  }
  return Tensor::of(result.shape(), sums).to(result.dtype());
}

}  // namespace

NamedTensors average(const std::vector<NamedTensors>& models) {
  FOLDGRAD_CHECK(!models.empty(), "average: there must be at least 1 model, got 0");
  for (const auto& model : models) require_alike("average", models[0], model);
  NamedTensors result;
  for (const auto& [name, first] : models[0]) {
    std::vector<Tensor> tensors;
    for (const auto& model : models) tensors.push_back(model.at(name));
    result.emplace(name, average(tensors));
  }
  return result;
}

}  // namespace foldgrad
