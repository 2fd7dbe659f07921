#include "engine/cuda/runtime/trouble.h"

#include <cstdlib>

#include "engine/check.h"

namespace foldgrad {
namespace {
std::string version(int v) { return fmt::format("{}.{}", v / 1000, v % 1000 / 10); }
}  // namespace

std::string explain(const CudaMachine& m, int index) {
  using enum CudaMachine::Trouble;
  switch (m.trouble) {
    case no_driver:
      return "there is no NVIDIA driver on this machine; install one, or use --device cpu";
    case driver_too_old:
      return fmt::format(
          "the NVIDIA driver is too old: it supports CUDA up to {}, but this program was built with {}; install a "
          "newer driver, or build with a toolkit that the driver supports",
          version(m.driver), version(m.toolkit));
    case no_device:
      return "the NVIDIA driver makes no GPU visible to this process; check nvidia-smi and CUDA_VISIBLE_DEVICES";
    case other:
      return m.message;
    case none:
    case no_kernel_image:
      break;
  }
  if (index >= m.devices)
    return fmt::format(
        "there is no device {}: this process sees {}", index,
        m.devices == 1 ? "one GPU, cuda:0" : fmt::format("{} GPUs, cuda:0 to cuda:{}", m.devices, m.devices - 1));
  if (m.trouble == none) return "";
  if (std::atof(m.capability.c_str()) < 8)
    return fmt::format("{} has compute capability {}, but the kernels need 8.0 or newer; use --device cpu", m.name,
                       m.capability);
  std::string architecture = m.capability;
  std::erase(architecture, '.');
  return fmt::format(
      "{} has compute capability {}, but this program has kernels for {}; configure it with "
      "-DCMAKE_CUDA_ARCHITECTURES={} and build it again",
      m.name, m.capability, m.built_for, architecture);
}

}  // namespace foldgrad
