// Measures elapsed time.
#pragma once
#include <algorithm>
#include <chrono>

namespace foldgrad {

using Clock = std::chrono::steady_clock;

// Returns the seconds since `begin`, or 0 if the clock went backwards, which can happen when a machine sleeps or is
// migrated. So sums and speeds are never negative.
inline double seconds_since(Clock::time_point begin) {
  return std::max(0.0, std::chrono::duration<double>(Clock::now() - begin).count());
}

}  // namespace foldgrad
