#include <cstring>
#include <stdexcept>

#include "engine/cuda/runtime/cudart.h"
#include "engine/device.h"
#include "engine/parallel/device_link.h"
#include "engine/parallel/module.h"

namespace foldgrad {
namespace {
auto find_nccl() {
  return find_in_module<DeviceLink*(const DeviceLink::Uuid&, cudaStream_t)>("foldgrad_nccl.so", "foldgrad_open_nccl");
}
}  // namespace

std::unique_ptr<DeviceLink> open_nccl() {
  const auto [open, trouble] = find_nccl();
  if (!open) throw std::runtime_error(trouble);
  const cudaStream_t stream = cuda_stream();  // makes the stream's device current, and NCCL then uses it
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, cuda_device()), "cudaGetDeviceProperties");
  DeviceLink::Uuid uuid;
  static_assert(sizeof uuid == sizeof properties.uuid);
  std::memcpy(uuid.data(), &properties.uuid, sizeof uuid);
  return std::unique_ptr<DeviceLink>(open(uuid, stream));
}

std::string nccl_trouble() { return find_nccl().second; }

}  // namespace foldgrad
