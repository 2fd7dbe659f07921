#include "ops/linear/stacked.h"

namespace foldgrad {

Tensor stacked(const std::vector<Tensor>& parts) {
  if (parts.size() == 1) return parts[0];
  std::vector<std::int64_t> lengths;
  std::int64_t length = 0;
  for (const Tensor& part : parts) length += lengths.emplace_back(part.shape()[0]);
  const Tensor whole = Tensor::empty(parts[0].shape().with(0, length), parts[0].dtype(), parts[0].device());
  std::vector<Tensor> places = split(whole, lengths);
  for (std::size_t i = 0; i < parts.size(); ++i) places[i].copy_from(parts[i]);
  return whole;
}

std::vector<Tensor> split(const Tensor& whole, const std::vector<std::int64_t>& lengths) {
  std::vector<Tensor> parts;
  std::int64_t begin = 0;
  for (const std::int64_t length : lengths) {
    parts.push_back(whole.slice(begin, begin + length));
    begin += length;
  }
  return parts;
}

}  // namespace foldgrad
