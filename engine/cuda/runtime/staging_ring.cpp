#include "engine/cuda/runtime/staging_ring.h"

#include "engine/cuda/runtime/device_guard.h"

namespace foldgrad {

std::size_t StagingRing::reserve(std::size_t bytes) {
  const std::size_t begin = end_ + bytes <= size_ ? end_ : 0, end = begin + bytes;
  // A part that does not fit at the end of the ring begins at 0, so the parts that it overlaps need not be the oldest.
  std::size_t done = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i)
    if (parts_[i].begin < end && begin < parts_[i].end) done = i + 1;
  if (done > 0 && !marks_.passed(parts_[done - 1].mark)) {
    count_host_wait();
    marks_.wait(parts_[done - 1].mark);
  }
  while (done > 0 || (!parts_.empty() && marks_.passed(parts_.front().mark))) {
    marks_.forget(parts_.front().mark);
    parts_.pop_front();
    if (done > 0) --done;
  }
  begin_ = begin, end_ = end;
  return begin;
}

void StagingRing::queued() { parts_.push_back({begin_, end_, marks_.set()}); }

}  // namespace foldgrad
