// Sequences of different lengths as the rows of one matrix [N, C], one sequence after the other.
#pragma once
#include <vector>

#include "engine/parallel/communicator.h"
#include "engine/tensor.h"

namespace foldgrad {

// Segment s has room for room(s) rows, from row offset(s) on. The first length(s) of them are its tokens. Mostly these
// are all: surplus rows stand only where padding is data, which the normalizers of some authors' code see. They are
// computed like any row, but nothing attends to them and no loss counts them.
// Made once for a batch. Copies share their memory.
class Segments {
 public:
  Segments() : Segments(std::vector<std::int64_t>()) {}
  // Makes each room as large as its length if none are given. Throws std::invalid_argument unless there are as many
  // rooms as lengths and 0 <= length <= room for each.
  explicit Segments(const std::vector<std::int64_t>& lengths, const std::vector<std::int64_t>& rooms = {});
  // Returns `count` segments of `length` tokens.
  static Segments equal(std::int64_t count, std::int64_t length);
  // Returns these segments with their place in the batch, of which each rank has a part, in the order of ranks. Null:
  // they are the whole batch.
  Segments among(Communicator* communicator) const;

  std::int64_t count() const { return host_lengths_.size(); }
  std::int64_t rows() const { return offset(count()); }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t longest() const { return longest_; }  // the largest room
  std::int64_t equal_length() const;                 // of all segments, without surplus rows; -1: they differ
  // Return how many rows and segments of the batch come before these.
  std::int64_t first_row() const { return first_row_; }
  std::int64_t first_segment() const { return first_segment_; }
  // Take s in [0, count()); offset() takes count(), too.
  std::int64_t offset(std::int64_t s) const { return host_offsets_.data<std::int64_t>()[s]; }
  std::int64_t length(std::int64_t s) const { return host_lengths_.data<std::int64_t>()[s]; }
  std::int64_t room(std::int64_t s) const { return offset(s + 1) - offset(s); }

  // Tables for kernels, on device(): i64 [count + 1] and [count].
  Device device() const { return offsets_.device(); }
  const Tensor& offsets() const { return offsets_; }
  const Tensor& lengths() const { return lengths_; }
  Segments to(Device device) const;

  // Returns the place of each row in its segment, counted from 0, or -1 for a surplus row: i64 [rows], on the CPU.
  Tensor places() const;
  // Returns the rows that are tokens: i64 [tokens], on the CPU.
  Tensor token_rows() const;

 private:
  Tensor host_offsets_, host_lengths_, offsets_, lengths_;
  std::int64_t tokens_ = 0, longest_ = 0, first_row_ = 0, first_segment_ = 0;
};

}  // namespace foldgrad
