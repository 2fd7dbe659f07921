// The part of a ring of host memory that may be written while the device still copies from others.
//
// A copy to the device need not wait for the kernels before it when its source stays as it is until the device has read
// it. So the values go through a ring: into a part that nothing reads any more, and from there to the device. The ring
// waits only when it is full, and then for its oldest copy.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>

namespace foldgrad {

// Marks in the queue of the device.
class Marks {
 public:
  virtual ~Marks() = default;
  virtual std::uint64_t set() = 0;  // after all that is queued so far
  virtual bool passed(std::uint64_t mark) = 0;
  virtual void wait(std::uint64_t mark) = 0;
  virtual void forget(std::uint64_t mark) = 0;  // it is not asked for any more
};

class StagingRing {
 public:
  // marks must outlive the ring.
  StagingRing(std::size_t bytes, Marks& marks) : size_(bytes), marks_(marks) {}

  // Returns the offset of so many bytes, from 1 to all of the ring, that no queued copy reads.
  std::size_t reserve(std::size_t bytes);
  // Notes that the copy out of what reserve() gave last is queued.
  void queued();

 private:
  struct Part {
    std::size_t begin, end;
    std::uint64_t mark;
  };

  const std::size_t size_;
  Marks& marks_;
  std::deque<Part> parts_;           // that may still be copied, the oldest first
  std::size_t begin_ = 0, end_ = 0;  // of what reserve() gave last
};

}  // namespace foldgrad
