#include "train/loop/gradient_sum.h"

namespace foldgrad {
namespace {

constexpr std::size_t kBucketBytes = 25 << 20;

// Sums the tensors, all of type T, as one array.
template <class T>
void sum_bucket(Communicator& communicator, std::span<const Tensor> tensors) {
  std::size_t size = 0;
  for (const Tensor& t : tensors) size += std::size_t(t.size());
  std::vector<T> values(size);
  T* at = values.data();
  for (const Tensor& t : tensors) {
    memory::copy(Device::cpu, at, t.device(), t.raw(), t.bytes());
    at += t.size();
  }
  communicator.all_reduce_sum(std::span(values));
  at = values.data();
  for (const Tensor& t : tensors) {
    memory::copy(t.device(), t.raw(), Device::cpu, at, t.bytes());
    at += t.size();
  }
}

}  // namespace

void sum_over_ranks(Communicator& communicator, const std::vector<Parameter*>& parameters,
                    std::vector<Tensor>& losses) {
  std::vector<Tensor> bucket;
  std::size_t bytes = 0;
  const auto flush = [&] {
    if (bucket.empty()) return;
    bucket[0].dtype() == DType::f64 ? sum_bucket<double>(communicator, bucket)
                                    : sum_bucket<float>(communicator, bucket);
    bucket.clear(), bytes = 0;
  };
  for (const Parameter* p : parameters) {
    if (!p->has_grad) continue;
    if (bytes + p->grad.bytes() > kBucketBytes) flush();
    bucket.push_back(p->grad);
    bytes += p->grad.bytes();
  }
  flush();
  std::vector<double> sums;
  for (const Tensor& loss : losses) sums.push_back(loss.item());
  communicator.all_reduce_sum(std::span(sums));
  losses.clear();
  for (const double sum : sums) losses.push_back(Tensor::full({}, sum, DType::f64));
}

NamedTensors part_of(const NamedTensors& inputs, const Communicator* communicator) {
  if (!communicator) return inputs;
  NamedTensors part;
  for (const auto& [name, tensor] : inputs) {
    const std::int64_t B = tensor.shape()[0], r = communicator->rank(), R = communicator->size();
    part.emplace(name, tensor.slice(B * r / R, B * (r + 1) / R));
  }
  return part;
}

}  // namespace foldgrad
