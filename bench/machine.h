// The limits of this machine, measured in the same run as the results; and the time that a function takes.
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "engine/device.h"
#include "engine/dtype.h"

namespace foldgrad::bench {

// Returns the seconds of each of `times` calls of `timed`, each after an uncounted call of `before`. On the CPU by the
// clock; on a GPU by events in its queue, for which the host waits once at the end. Time with an empty queue counts, so
// kernels should take longer than the host takes to launch them.
std::vector<double> device_seconds(Device device, int times, const std::function<void()>& before,
                                   const std::function<void()>& timed);

// Returns the seconds by events. Throws std::runtime_error in builds without CUDA.
std::vector<double> event_seconds(int times, const std::function<void()>& before, const std::function<void()>& timed);

// Returns the bytes read plus bytes written per second by the fastest copy of `bytes` on the device: on the CPU the
// best of memcpy, a vector loop and a vector loop with non-temporal stores, on all threads; on cuda a device-to-device
// copy, by events.
double copy_bandwidth(Device device, std::size_t bytes);
// Returns the operations per second of the fastest of some products of 8192 x 8192 numbers on cuda.
double product_rate(Device device, DType dtype);
// Returns the f32 operations per second of a loop of independent fused multiply-adds on all threads. CPU only.
double fma_peak();

// The limits of the CPU with all threads, per second: f32 operations of a loop of independent fused multiply-adds, and
// the bytes that the fastest copy of 64 MiB reads and writes.
struct Limits {
  double fma, copy;
};
// Measures the limits at the first call.
const Limits& cpu_limits();

// Adds the machine's name, and on the CPU its limits, to the results of a benchmark.
void describe_machine(Device device);

// Removes the option from the arguments. Returns true if it was there.
bool take_argument(int& argc, char** argv, const std::string& option);
// Removes --device=cuda from the arguments; without it returns the CPU. Throws std::invalid_argument without a GPU.
Device device_argument(int& argc, char** argv);

// Serves as main() of a benchmark: `register_all` adds contexts and benchmarks, which run unless it returns a number
// other than 0. With --plain only plain kernels run (engine/fast.h). An exception is printed under the name of the
// program, and gives 1; unknown arguments give 2.
int run_program(const char* program, int argc, char** argv, int (*register_all)(int& argc, char** argv));

}  // namespace foldgrad::bench
