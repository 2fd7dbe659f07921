// The reasons why CUDA cannot be used on a machine, in words that say what to do. C++17, since .cu files include it.
#pragma once
#include <string>

namespace foldgrad {

// The CUDA runtime's findings on the machine and one of its devices.
struct CudaMachine {
  enum class Trouble { none, no_driver, driver_too_old, no_device, no_kernel_image, other } trouble = Trouble::none;
  int driver = 0, toolkit = 0;  // versions as CUDA writes them, 13010 for 13.1; 0: none, or not known
  int devices = 0;
  std::string name = {}, capability = {};  // "NVIDIA H200", "9.0"
  std::string built_for = {};              // capabilities that this program holds kernels for: "8.0, 9.0"
  std::string message = {};                // of the runtime, for `other`
};

// Explains the trouble with device `index`; empty when nothing is wrong.
std::string explain(const CudaMachine& machine, int index);

}  // namespace foldgrad
