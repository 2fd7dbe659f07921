// How long a device takes for something, whatever the host does meanwhile.
#pragma once
#include <functional>
#include <vector>

#include "engine/device.h"

namespace foldgrad::bench {

// Returns the seconds of each of `times` calls of `timed`; a call of `before` precedes each and does not count. On the
// CPU by the clock. On a GPU by events in its queue, for which the host waits once, at the end; time in which the queue
// was empty counts, so kernels should take longer than the host takes to launch them.
std::vector<double> device_seconds(Device device, int times, const std::function<void()>& before,
                                   const std::function<void()>& timed);

// Those by events. Throws std::runtime_error in builds without CUDA.
std::vector<double> event_seconds(int times, const std::function<void()>& before, const std::function<void()>& timed);

}  // namespace foldgrad::bench
