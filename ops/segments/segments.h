// Sequences of different lengths as rows of one matrix [N, C], one sequence after another.
#pragma once
#include <vector>

#include "engine/parallel/communicator.h"
#include "engine/tensor.h"

namespace foldgrad {

// Segment s has length(s) rows, which begin at row offset(s). Example: with lengths {2, 1}, rows 0 and 1 are segment 0,
// and row 2 is segment 1. Make one object per batch. Copies share memory.
class Segments {
 public:
  Segments() : Segments(std::vector<std::int64_t>()) {}
  // Throws std::invalid_argument for a negative length.
  explicit Segments(const std::vector<std::int64_t>& lengths);
  // Returns `count` segments of `length` rows.
  static Segments equal(std::int64_t count, std::int64_t length);
  // Returns these segments with their position in the whole batch, which consists of the parts of all ranks in rank
  // order. If `communicator` is null, these segments are the whole batch.
  Segments among(Communicator* communicator) const;

  std::int64_t count() const { return host_offsets_.size() - 1; }
  std::int64_t rows() const { return offset(count()); }
  std::int64_t longest() const { return longest_; }                                           // the largest length
  std::int64_t equal_length() const { return rows() == count() * longest_ ? longest_ : -1; }  // -1 if lengths differ
  // These return the numbers of rows and of segments that precede these segments in the batch.
  std::int64_t first_row() const { return first_row_; }
  std::int64_t first_segment() const { return first_segment_; }
  // s must be in [0, count()); offset() also accepts count().
  std::int64_t offset(std::int64_t s) const { return host_offsets_.data<std::int64_t>()[s]; }
  std::int64_t length(std::int64_t s) const { return offset(s + 1) - offset(s); }
  Tensor lengths() const;  // returns i64 [count] on the CPU

  // offsets() is for kernels on device(): i64 [count + 1], the first row of each segment, and then the number of rows.
  Device device() const { return offsets_.device(); }
  const Tensor& offsets() const { return offsets_; }
  Segments to(Device device) const;

  // Returns each row's position in its segment: i64 [rows], on the CPU.
  Tensor places() const;

 private:
  Tensor host_offsets_, offsets_;
  std::int64_t longest_ = 0, first_row_ = 0, first_segment_ = 0;
};

}  // namespace foldgrad
