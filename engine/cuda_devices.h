// Which GPUs there are, and which of them Device::cuda means.
#pragma once
#include <string>

namespace foldgrad {

constexpr int kMostCudaDevices = 16;

// How many the driver shows to this process, usable or not: 0 without a driver. Under emulation 2, for tests.
int cuda_devices();
// Why the device of this index cannot be used and what to do about it; empty when it can.
std::string cuda_trouble(int index);

// Chooses the GPU that Device::cuda stands for, for all threads. Memory, stream and library handles are one set per
// device. Tensors stay where they are, and kernels of another device do not read them: choose before there are any. At
// first it is 0. Throws std::invalid_argument for a device that is not there.
void use_cuda_device(int index);
int cuda_device();

}  // namespace foldgrad
