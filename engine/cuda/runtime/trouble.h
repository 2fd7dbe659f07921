// Explains why CUDA cannot be used on a machine, and what to do about it. .cu files include this header, so it must be
// C++17.
#pragma once
#include <string>

namespace foldgrad {

// The CUDA runtime's report about the machine and one of its devices.
struct CudaMachine {
  enum class Trouble { none, no_driver, driver_too_old, no_device, no_kernel_image, other } trouble = Trouble::none;
  int driver = 0, toolkit = 0;  // versions in CUDA's notation: 13010 is 13.1; 0 if missing or unknown
  int devices = 0;
  std::string name = {}, capability = {};  // for example "NVIDIA H200" and "9.0"
  std::string built_for = {};              // the capabilities for which this program has kernels, such as "8.0, 9.0"
  std::string message = {};                // the CUDA runtime's message, if the trouble is `other`
};

// Returns an explanation of why device `index` cannot be used, or an empty string if it can be used.
std::string explain(const CudaMachine& machine, int index);

}  // namespace foldgrad
