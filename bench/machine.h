// Timing of functions, and this machine's limits, which are measured in the same run as the results.
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "engine/device.h"
#include "engine/dtype.h"

namespace foldgrad::bench {

// Calls `before` and then `timed`, `times` times, and returns the seconds of each call of `timed`. The CPU is timed
// with a clock, a GPU with events in its queue, for which the host waits once at the end. Time in which the queue is
// empty counts too, so kernels should take longer than the host needs to launch them.
std::vector<double> device_seconds(Device device, int times, const std::function<void()>& before,
                                   const std::function<void()>& timed);

// Does the same on a GPU, with events. Throws std::runtime_error in builds without CUDA.
std::vector<double> event_seconds(int times, const std::function<void()>& before, const std::function<void()>& timed);

// Returns the bandwidth of the fastest copy of `bytes` bytes on the device: bytes read plus bytes written, per second.
// The CPU uses the best of memcpy, a vector loop, and a loop with non-temporal stores, on all threads. On cuda, a
// device-to-device copy is timed with events.
double copy_bandwidth(Device device, std::size_t bytes);
// Multiplies matrices of 8192 x 8192 numbers on cuda repeatedly and returns the best rate in operations per second.
double product_rate(Device device, DType dtype);
// Returns the f32 operations per second of a loop of independent fused multiply-adds on all threads. CPU only.
double fma_peak();

// The CPU's limits on all threads. `fma` is fma_peak(), `copy` is copy_bandwidth() for 64 MiB.
struct Limits {
  double fma, copy;
};
// Measures the limits at the first call.
const Limits& cpu_limits();

// Adds the machine's name, and on the CPU its limits, to the results of a benchmark.
void describe_machine(Device device);

// Removes the option from the arguments. Returns true if it was there.
bool take_argument(int& argc, char** argv, const std::string& option);
// Removes --device=cuda from the arguments and returns cuda. Without this argument, returns the CPU. Throws
// std::invalid_argument if cuda is requested and there is no GPU.
Device device_argument(int& argc, char** argv);

// The main() of a benchmark program. `register_all` adds contexts and benchmarks. If it returns 0, the benchmarks run;
// otherwise its result is the exit code. With --plain only plain kernels run (engine/fast.h). If an
// exception is thrown, prints the program's name and the message, and returns 1. Returns 2 for unknown arguments.
int run_program(const char* program, int argc, char** argv, int (*register_all)(int& argc, char** argv));

}  // namespace foldgrad::bench
