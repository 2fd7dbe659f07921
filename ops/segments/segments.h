// Sequences of different lengths as rows of one matrix [N, C], one sequence after another.
#pragma once
#include <vector>

#include "engine/parallel/communicator.h"
#include "engine/tensor.h"

namespace foldgrad {

// Segment s has room for room(s) rows, which begin at row offset(s); the first length(s) of them are tokens, the others
// padding. Example: lengths {2, 1} and rooms {3, 1} give 4 rows; rows 0, 1 and 3 are tokens, row 2 is padding. Without
// `rooms` there is no padding. Only normalizers of some authors' code see padding: it is computed like any row, but
// nothing attends to it and no loss includes it.
// Make one for each batch. Copies share memory.
class Segments {
 public:
  Segments() : Segments(std::vector<std::int64_t>()) {}
  // Without `rooms`, each room is as large as its length. Throws std::invalid_argument unless lengths and rooms have
  // the same number of entries and 0 <= length <= room for each.
  explicit Segments(const std::vector<std::int64_t>& lengths, const std::vector<std::int64_t>& rooms = {});
  // Returns `count` segments of `length` tokens.
  static Segments equal(std::int64_t count, std::int64_t length);
  // Returns these segments with their position in the batch, of which each rank has a part, in the order of the ranks.
  // If `communicator` is null, they are the whole batch.
  Segments among(Communicator* communicator) const;

  std::int64_t count() const { return host_lengths_.size(); }
  std::int64_t rows() const { return offset(count()); }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t longest() const { return longest_; }  // the largest room
  std::int64_t equal_length() const;                 // the length of all; -1 if lengths differ or there is padding
  // Return the number of rows and of segments of the batch before these.
  std::int64_t first_row() const { return first_row_; }
  std::int64_t first_segment() const { return first_segment_; }
  // s is in [0, count()); offset() also takes count().
  std::int64_t offset(std::int64_t s) const { return host_offsets_.data<std::int64_t>()[s]; }
  std::int64_t length(std::int64_t s) const { return host_lengths_.data<std::int64_t>()[s]; }
  std::int64_t room(std::int64_t s) const { return offset(s + 1) - offset(s); }

  // Tables for kernels on device(): i64 [count + 1] and [count].
  Device device() const { return offsets_.device(); }
  const Tensor& offsets() const { return offsets_; }
  const Tensor& lengths() const { return lengths_; }
  Segments to(Device device) const;

  // Returns each row's position in its segment, or -1 for padding: i64 [rows], on the CPU.
  Tensor places() const;
  // Returns the indices of the rows that are tokens: i64 [tokens], on the CPU.
  Tensor token_rows() const;

 private:
  Tensor host_offsets_, host_lengths_, offsets_, lengths_;
  std::int64_t tokens_ = 0, longest_ = 0, first_row_ = 0, first_segment_ = 0;
};

}  // namespace foldgrad
