#include "bench/device_time.h"

#include <chrono>

namespace foldgrad::bench {

std::vector<double> device_seconds(Device device, int times, const std::function<void()>& before,
                                   const std::function<void()>& timed) {
  using Clock = std::chrono::steady_clock;
  if (device == Device::cuda) return event_seconds(times, before, timed);
  std::vector<double> seconds;
  for (int i = 0; i < times; ++i) {
    before();
    const auto start = Clock::now();
    timed();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  return seconds;
}

}  // namespace foldgrad::bench
