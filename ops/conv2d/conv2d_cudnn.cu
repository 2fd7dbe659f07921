// Computes convolutions with cuDNN 9, which plans once for each shape. This code has not yet run on a GPU.
#include <array>
#include <map>
#include <mutex>

#include "engine/cuda/launch.h"
#include "engine/cuda/runtime/device_guard.h"
#include "engine/gemm/gemm.h"
#include "engine/memory.h"
#include "ops/conv2d/cudnn_plan.h"

namespace foldgrad {
namespace {

// cuDNN's handle for one device, with all plans made for the device.
struct Library {
  using Key = std::array<std::int64_t, 15>;

  Library() {
    check_cudnn(cudnnCreate(&handle), "cudnnCreate");
    check_cudnn(cudnnSetStream(handle, cuda_stream()), "cudnnSetStream");
    device = cudnn_device(descriptors, handle);
  }
  const CudnnPlan& plan(const Conv2dProduct& p, bool adds_bias) {
    const Conv2dSizes& s = p.s;
    const bool tf32 = tf32_allowed();
    const Key key{
        std::int64_t(p.pass), std::int64_t(p.dtype), adds_bias, tf32,      s.batch,       s.channels, s.height, s.width,
        s.kernel_height,      s.kernel_width,        s.stride,  s.padding, s.end_padding, p.out,      p.groups};
    return plans.try_emplace(key, p, adds_bias, tf32, device).first->second;
  }

  cudnnHandle_t handle = nullptr;
  CudnnDescriptors descriptors;
  cudnnBackendDescriptor_t device = nullptr;
  std::map<Key, CudnnPlan> plans;
};

bool is_aligned(const void* at) { return reinterpret_cast<std::uintptr_t>(at) % kCudnnAlignment == 0; }

}  // namespace

bool cudnn_conv2d_product(const Conv2dProduct& product, const Conv2dBuffers& at) {
  // No engine supports f32 weights with bf16 images.
  if (product.dtype == DType::f64 || product.f32_dweight) return false;
  if (!is_aligned(at.x) || !is_aligned(at.weight) || !is_aligned(at.y) || !is_aligned(at.bias)) return false;
  static std::mutex mutex;  // guards the plans, and lets only one host thread at a time use a handle
  const std::lock_guard lock(mutex);
  const CudaDeviceGuard guard;
  static PerDevice<Library*> libraries;  // never destroyed, since the driver may shut down before the process ends
  Library& library = *libraries.here([] { return new Library; });
  const CudnnPlan& plan = library.plan(product, at.bias != nullptr);
  if (!plan.covered()) return false;
  const auto workspace = memory::allocate(Device::cuda, plan.workspace());
  plan.run(library.handle, at, workspace.get());
  return true;
}

}  // namespace foldgrad
