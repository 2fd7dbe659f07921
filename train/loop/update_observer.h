// Callback interface around each update of a trainer. Training must not depend on it.
#pragma once
#include <cstdint>

namespace foldgrad {

// Updates are numbered from 1. One that is made again, since a number was not finite, comes again.
class UpdateObserver {
 public:
  virtual ~UpdateObserver() = default;
  virtual void begin(std::int64_t update) = 0;
  virtual void end(std::int64_t update) = 0;  // not called when the update throws
};

}  // namespace foldgrad
