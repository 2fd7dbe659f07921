#include "train/checkpoints/average.h"

#include "engine/dispatch.h"

namespace foldgrad {
namespace {

std::int64_t floor_quotient(std::int64_t sum, std::int64_t n) { return sum / n - (sum % n < 0); }

template <class T>
void divide(const std::vector<double>& sums, std::int64_t n, const Tensor& result) {
  for (std::size_t i = 0; i < sums.size(); ++i) result.data<T>()[i] = T(sums[i] / double(n));  // [AVG-1]
}

Tensor average(const std::vector<Tensor>& tensors) {
  const Tensor result = Tensor::empty(tensors[0].shape(), tensors[0].dtype());
  const std::int64_t n = std::int64_t(tensors.size());
  if (is_floating(result.dtype())) {
    std::vector<double> sums(std::size_t(result.size()));
    for (const Tensor& t : tensors) {
      const std::vector<double> values = t.to(DType::f64).values<double>();
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += values[i];
    }
    dispatch_floating("average", result.dtype(), [&]<class T>(Type<T>) { divide<T>(sums, n, result); });
    return result;
  }
  std::vector<std::int64_t> sums(std::size_t(result.size()));
  for (const Tensor& t : tensors) {
    const std::vector<std::int64_t> values = t.to(DType::i64).values<std::int64_t>();
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += values[i];
  }
  for (std::int64_t& sum : sums) sum = floor_quotient(sum, n);  // [AVG-2]
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
