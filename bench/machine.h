// The limits of this machine, measured in the same run as what is compared with them.
#pragma once
#include <cstddef>

#include "engine/device.h"
#include "engine/dtype.h"

namespace foldgrad::bench {

// Bytes read plus bytes written per second by the fastest copy of `bytes` to as many others on the device: on the CPU
// the best of memcpy, a vector loop and a vector loop with non-temporal stores, on all threads; on cuda a
// device-to-device copy, by events.
double copy_bandwidth(Device device, std::size_t bytes);
// Operations per second of the fastest of some products of 8192 x 8192 numbers on cuda.
double product_rate(Device device, DType dtype);
// f32 operations per second of a loop of independent fused multiply-adds on all threads. CPU only.
double fma_peak();

// Takes --device=cuda out of the arguments; the CPU without it. Throws std::invalid_argument where there is no GPU.
Device device_argument(int& argc, char** argv);

// main() of a benchmark: `register_all` adds contexts and benchmarks, which are then run, unless it returns other than
// 0. What is thrown is printed under the name of the program, and gives 1; arguments that nobody takes give 2.
int run_program(const char* program, int argc, char** argv, int (*register_all)(int& argc, char** argv));

}  // namespace foldgrad::bench
