// Who looks at a trainer's updates. What is trained must not depend on it.
#pragma once
#include <cstdint>

namespace foldgrad {

// Updates are numbered from 1. One that is made again, since a number was not finite, comes again.
class UpdateObserver {
 public:
  virtual ~UpdateObserver() = default;
  // Whether it must see the update's operations, which then are not replayed from a graph.
  virtual bool begin(std::int64_t update) = 0;
  virtual void end(std::int64_t update) = 0;  // only where it did not throw
};

}  // namespace foldgrad
