// A product of a convolution as an operation graph of cuDNN 9, and the engine that computes it. A plan needs only the
// device's properties, so tests can make plans without a GPU.
#pragma once
#include <cudnn.h>

#include <memory>
#include <vector>

#include "ops/conv2d/conv2d_products.h"

namespace foldgrad {

constexpr std::size_t kCudnnAlignment = 16;  // alignment of all buffers in bytes

// Throws std::runtime_error with the library's reason unless the call succeeded.
void check_cudnn(cudnnStatus_t status, const char* call);

// Owns descriptors that refer to each other.
class CudnnDescriptors {
 public:
  cudnnBackendDescriptor_t make(cudnnBackendDescriptorType_t type);

 private:
  std::vector<std::unique_ptr<void, cudnnStatus_t (*)(cudnnBackendDescriptor_t)>> made_;
};

class CudnnPlan {
 public:
  // Chooses the engine that cuDNN's heuristics rank highest among those that give bit-identical results on every run
  // and round operands and sums only to their own types; with `tf32`, f32 operands may be rounded to TensorFloat-32. If
  // there is no such engine, covered() returns false. p must be f32 or bf16, without f32_dweight; `device` must come
  // from cudnn_device(). Throws std::runtime_error if cuDNN fails.
  CudnnPlan(const Conv2dProduct& p, bool adds_bias, bool tf32, cudnnBackendDescriptor_t device);

  bool covered() const { return plan_ != nullptr; }
  std::size_t workspace() const;  // returns the size of the workspace in bytes
  // Returns cuDNN's notes on the engine's arithmetic.
  const std::vector<cudnnBackendNumericalNote_t>& notes() const { return notes_; }
  // Launches the plan on the handle's stream. Throws std::runtime_error if this fails.
  void run(cudnnHandle_t handle, const Conv2dBuffers& at, void* workspace) const;

 private:
  CudnnDescriptors descriptors_;  // descriptors of the plan, and of rejected engines
  cudnnBackendDescriptor_t plan_ = nullptr;
  std::vector<cudnnBackendNumericalNote_t> notes_;
};

// Returns a descriptor of the device that the handle uses. Throws std::runtime_error if this fails.
cudnnBackendDescriptor_t cudnn_device(CudnnDescriptors& to, cudnnHandle_t handle);

}  // namespace foldgrad
