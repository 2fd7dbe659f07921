#include "ops/segments/segments.h"

#include <algorithm>

namespace foldgrad {

Segments::Segments(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> offsets{0};
  for (const std::int64_t length : lengths) {
    FOLDGRAD_CHECK(length >= 0, "segments: the length of segment {} must be at least 0, got {}", offsets.size() - 1,
                   length);
    offsets.push_back(offsets.back() + length);
    longest_ = std::max(longest_, length);
  }
  offsets_ = host_offsets_ = Tensor::of({std::int64_t(offsets.size())}, offsets);
}

Segments Segments::equal(std::int64_t count, std::int64_t length) {
  return Segments(std::vector<std::int64_t>(std::size_t(count), length));
}

Segments Segments::among(Communicator* communicator) const {
  Segments placed = *this;
  if (!communicator) return placed;
  const std::int64_t own[]{rows(), count()};
  const std::vector<std::int64_t> all = communicator->all_gather(std::span<const std::int64_t>(own));
  for (int r = 0; r < communicator->rank(); ++r) {
    placed.first_row_ += all[std::size_t(2 * r)];
    placed.first_segment_ += all[std::size_t(2 * r + 1)];
  }
  return placed;
}

Segments Segments::to(Device device) const {
  Segments there = *this;
  if (device == this->device()) return there;
  there.offsets_ = host_offsets_.to(device);
  return there;
}

Tensor Segments::lengths() const {
  std::vector<std::int64_t> lengths;
  for (std::int64_t s = 0; s < count(); ++s) lengths.push_back(length(s));
  return Tensor::of({count()}, lengths);
}

Tensor Segments::places() const {
  std::vector<std::int64_t> places;
  for (std::int64_t s = 0; s < count(); ++s)
    for (std::int64_t i = 0; i < length(s); ++i) places.push_back(i);
  return Tensor::of({rows()}, places);
}

}  // namespace foldgrad
