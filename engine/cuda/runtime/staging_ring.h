// A ring buffer in host memory for copies to the device. We write to one part while the device reads others.
//
// A copy to the device may be queued behind kernels if its source does not change until the device has read it. So we
// copy the values into a free part of the ring, and queue a copy from there. If the ring is full, we wait for the
// oldest copy.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>

namespace foldgrad {

// Marks in the device's queue, such as CUDA events.
class Marks {
 public:
  virtual ~Marks() = default;
  virtual std::uint64_t set() = 0;  // returns a mark that is passed once everything queued so far has run
  virtual bool passed(std::uint64_t mark) = 0;
  virtual void wait(std::uint64_t mark) = 0;
  virtual void forget(std::uint64_t mark) = 0;  // releases a mark that is no longer needed
};

class StagingRing {
 public:
  // `marks` must outlive the ring.
  StagingRing(std::size_t bytes, Marks& marks) : size_(bytes), marks_(marks) {}

  // Returns the offset of a free range of `bytes` bytes, at least 1 and at most the ring's size. Waits for copies that
  // still read this range.
  std::size_t reserve(std::size_t bytes);
  // Tells the ring that the copy from the last reserve() is queued.
  void queued();

 private:
  struct Part {
    std::size_t begin, end;
    std::uint64_t mark;
  };

  const std::size_t size_;
  Marks& marks_;
  std::deque<Part> parts_;           // parts that may still be in use, the oldest first
  std::size_t begin_ = 0, end_ = 0;  // the range of the last reserve()
};

}  // namespace foldgrad
