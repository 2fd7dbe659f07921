// Rows shared out among CPU threads in blocks that do not depend on the number of threads, so that sums over rows which
// are formed block by block have the same bits with any number of them.
#pragma once
#include <algorithm>
#include <cstdint>

namespace foldgrad {

class RowBlocks {
 public:
  // At most 32 blocks (partial sums stay small and every machine's cores are busy), of at least 16 rows.
  explicit RowBlocks(std::int64_t rows) : rows_(rows), rows_per_block_(std::max<std::int64_t>(16, (rows + 31) / 32)) {}

  std::int64_t count() const { return (rows_ + rows_per_block_ - 1) / rows_per_block_; }
  std::int64_t begin(std::int64_t block) const { return block * rows_per_block_; }
  std::int64_t end(std::int64_t block) const { return std::min(rows_, (block + 1) * rows_per_block_); }

 private:
  std::int64_t rows_, rows_per_block_;
};

}  // namespace foldgrad
