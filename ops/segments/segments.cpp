#include "ops/segments/segments.h"

#include <algorithm>

namespace foldgrad {

Segments::Segments(const std::vector<std::int64_t>& lengths, const std::vector<std::int64_t>& rooms) {
  FOLDGRAD_CHECK(rooms.empty() || rooms.size() == lengths.size(),
                 "segments: there must be a room for each of {} lengths, got {}", lengths.size(), rooms.size());
  std::vector<std::int64_t> offsets{0};
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    const std::int64_t room = rooms.empty() ? lengths[s] : rooms[s];
    FOLDGRAD_CHECK(lengths[s] >= 0 && lengths[s] <= room,
                   "segments: the length of segment {} must be in [0, its room = {}], got {}", s, room, lengths[s]);
    offsets.push_back(offsets.back() + room);
    tokens_ += lengths[s];
    longest_ = std::max(longest_, room);
  }
  offsets_ = host_offsets_ = Tensor::of({std::int64_t(offsets.size())}, offsets);
  lengths_ = host_lengths_ = Tensor::of({std::int64_t(lengths.size())}, lengths);
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

std::int64_t Segments::equal_length() const {
  return tokens_ == rows() && rows() == count() * longest_ ? longest_ : -1;
}

Segments Segments::to(Device device) const {
  Segments there = *this;
  if (device == this->device()) return there;
  there.offsets_ = host_offsets_.to(device);
  there.lengths_ = host_lengths_.to(device);
  return there;
}

Tensor Segments::places() const {
  std::vector<std::int64_t> places;
  for (std::int64_t s = 0; s < count(); ++s)
    for (std::int64_t i = 0; i < room(s); ++i) places.push_back(i < length(s) ? i : -1);
  return Tensor::of({rows()}, places);
}

Tensor Segments::token_rows() const {
  std::vector<std::int64_t> rows;
  for (std::int64_t s = 0; s < count(); ++s)
    for (std::int64_t i = 0; i < length(s); ++i) rows.push_back(offset(s) + i);
  return Tensor::of({tokens_}, rows);
}

}  // namespace foldgrad
