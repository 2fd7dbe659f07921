// Where a run stands in its data; part of a checkpoint.
#pragma once
#include <cstdint>

namespace foldgrad {

struct DataCursor {
  std::int64_t epoch = 0, batch = 0;  // both from 0; `batch` is the next one
  bool operator==(const DataCursor&) const = default;
};

}  // namespace foldgrad
