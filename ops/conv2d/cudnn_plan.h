// A product of a convolution as an operation graph of cuDNN 9, and the engine that computes it.
//
// Plans are made from the properties of a device alone, so that they are tested on machines without one.
#pragma once
#include <cudnn.h>

#include <memory>
#include <vector>

#include "ops/conv2d/conv2d_products.h"

namespace foldgrad {

constexpr std::size_t kCudnnAlignment = 16;  // bytes, of all buffers

// Throws std::runtime_error, with the library's reason, unless the call has succeeded.
void check_cudnn(cudnnStatus_t status, const char* call);

// The owner of descriptors that are made one from another.
class CudnnDescriptors {
 public:
  cudnnBackendDescriptor_t make(cudnnBackendDescriptorType_t type);

 private:
  std::vector<std::unique_ptr<void, cudnnStatus_t (*)(cudnnBackendDescriptor_t)>> made_;
};

class CudnnPlan {
 public:
  // Takes the engine that cuDNN's heuristics rank first among those that give equal bits on every run and round
  // operands and sums no further than their types do; with `tf32`, f32 may be multiplied as TensorFloat-32. There may
  // be none. p: of f32 or bf16, not f32_dweight; device: from cudnn_device(). Throws std::runtime_error.
  CudnnPlan(const Conv2dProduct& p, bool adds_bias, bool tf32, cudnnBackendDescriptor_t device);

  bool covered() const { return plan_ != nullptr; }
  std::size_t workspace() const;  // bytes
  // Returns what cuDNN says of the engine's numbers.
  const std::vector<cudnnBackendNumericalNote_t>& notes() const { return notes_; }
  // Launches it on the handle's stream. Throws std::runtime_error.
  void run(cudnnHandle_t handle, const Conv2dBuffers& at, void* workspace) const;

 private:
  CudnnDescriptors descriptors_;  // the plan, and those that were refused before it
  cudnnBackendDescriptor_t plan_ = nullptr;
  std::vector<cudnnBackendNumericalNote_t> notes_;
};

// Describes the handle's device. Throws std::runtime_error.
cudnnBackendDescriptor_t cudnn_device(CudnnDescriptors& to, cudnnHandle_t handle);

}  // namespace foldgrad
