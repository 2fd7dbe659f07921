// Convolutions by cuDNN 9. Compiled by nvcc 13, but so far run on no GPU.
#include <cudnn.h>

#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

#include "engine/cuda/launch.h"
#include "engine/cuda/runtime/device_guard.h"
#include "engine/gemm/gemm.h"
#include "engine/memory.h"
#include "ops/conv2d/conv2d_products.h"

namespace foldgrad {
namespace {

// Deterministic algorithms; ALGO_0 of the two backward passes is not.
constexpr auto kForward = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
constexpr auto kBackwardX = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
constexpr auto kBackwardWeight = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;

void check(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string("conv2d: ") + call + " failed: " + cudnnGetErrorString(status));
}
#define FOLDGRAD_CUDNN(call, ...) check(call(__VA_ARGS__), #call)

std::mutex mutex;  // a handle serves one host thread at a time

cudnnHandle_t handle() {
  static PerDevice<cudnnHandle_t> handles;
  return handles.here([] {
    cudnnHandle_t created;
    FOLDGRAD_CUDNN(cudnnCreate, &created);
    FOLDGRAD_CUDNN(cudnnSetStream, created, cuda_stream());
    return created;
  });
}

template <class D>
using Owned = std::unique_ptr<std::remove_pointer_t<D>, cudnnStatus_t (*)(D)>;

Owned<cudnnTensorDescriptor_t> tensor(cudnnDataType_t type, std::int64_t n, std::int64_t c, std::int64_t h,
                                      std::int64_t w) {
  cudnnTensorDescriptor_t d;
  FOLDGRAD_CUDNN(cudnnCreateTensorDescriptor, &d);
  Owned<cudnnTensorDescriptor_t> owned(d, cudnnDestroyTensorDescriptor);
  FOLDGRAD_CUDNN(cudnnSetTensor4dDescriptor, d, CUDNN_TENSOR_NHWC, type, int(n), int(c), int(h), int(w));
  return owned;
}

// The four descriptors of one convolution of f32 or bf16.
struct Problem {
  cudnnDataType_t type;
  Owned<cudnnTensorDescriptor_t> x, y, bias;
  Owned<cudnnFilterDescriptor_t> weight{nullptr, cudnnDestroyFilterDescriptor};
  Owned<cudnnConvolutionDescriptor_t> convolution{nullptr, cudnnDestroyConvolutionDescriptor};

  explicit Problem(const Conv2dProduct& p)
      : type(p.dtype == DType::f32 ? CUDNN_DATA_FLOAT : CUDNN_DATA_BFLOAT16),
        x(tensor(type, p.s.batch, p.s.channels, p.s.height, p.s.width)),
        y(tensor(type, p.s.batch, p.out, p.s.out_height, p.s.out_width)),
        bias(tensor(type, 1, p.out, 1, 1)) {
    const Conv2dSizes& s = p.s;
    cudnnFilterDescriptor_t filter;
    FOLDGRAD_CUDNN(cudnnCreateFilterDescriptor, &filter);
    weight.reset(filter);
    FOLDGRAD_CUDNN(cudnnSetFilter4dDescriptor, filter, type, CUDNN_TENSOR_NHWC, int(p.out), int(s.channels),
                   int(s.kernel_height), int(s.kernel_width));
    cudnnConvolutionDescriptor_t d;
    FOLDGRAD_CUDNN(cudnnCreateConvolutionDescriptor, &d);
    convolution.reset(d);
    const int padding = int(s.padding), stride = int(s.stride);
    FOLDGRAD_CUDNN(cudnnSetConvolution2dDescriptor, d, padding, padding, stride, stride, 1, 1, CUDNN_CROSS_CORRELATION,
                   CUDNN_DATA_FLOAT);
    // With any other choice f32 would be multiplied as TensorFloat-32.
    const bool tensor_cores = p.dtype == DType::bf16 || tf32_allowed();
    FOLDGRAD_CUDNN(cudnnSetConvolutionMathType, d, tensor_cores ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH);
  }

  // Asks for the scratch memory of a pass; fails where cuDNN does not have its algorithm for this layout and type.
  cudnnStatus_t scratch_bytes(Conv2dPass pass, std::size_t& bytes) const {
    if (pass == Conv2dPass::y)
      return cudnnGetConvolutionForwardWorkspaceSize(handle(), x.get(), weight.get(), convolution.get(), y.get(),
                                                     kForward, &bytes);
    if (pass == Conv2dPass::dx)
      return cudnnGetConvolutionBackwardDataWorkspaceSize(handle(), weight.get(), y.get(), convolution.get(), x.get(),
                                                          kBackwardX, &bytes);
    return cudnnGetConvolutionBackwardFilterWorkspaceSize(handle(), x.get(), y.get(), convolution.get(), weight.get(),
                                                          kBackwardWeight, &bytes);
  }
  // Checks all three, so that the passes of one convolution are computed in one way.
  bool covered() const {
    std::size_t bytes = 0;
    for (const Conv2dPass pass : {Conv2dPass::y, Conv2dPass::dx, Conv2dPass::dweight})
      if (scratch_bytes(pass, bytes) != CUDNN_STATUS_SUCCESS) return false;
    return true;
  }
};

}  // namespace

bool cudnn_conv2d_product(const Conv2dProduct& product, const Conv2dBuffers& at) {
  const std::lock_guard lock(mutex);
  const CudaDeviceGuard guard;
  const Problem p(product);
  if (!p.covered()) return false;
  std::size_t bytes = 0;
  check(p.scratch_bytes(product.pass, bytes), "a workspace size");
  const auto scratch = memory::allocate(Device::cuda, bytes);
  const float zero = 0, one = 1;
  if (product.pass == Conv2dPass::y) {
    FOLDGRAD_CUDNN(cudnnConvolutionForward, handle(), &one, p.x.get(), at.x, p.weight.get(), at.weight,
                   p.convolution.get(), kForward, scratch.get(), bytes, &zero, p.y.get(), at.y);
    if (at.bias) FOLDGRAD_CUDNN(cudnnAddTensor, handle(), &one, p.bias.get(), at.bias, &one, p.y.get(), at.y);
  } else if (product.pass == Conv2dPass::dx) {
    FOLDGRAD_CUDNN(cudnnConvolutionBackwardData, handle(), &one, p.weight.get(), at.weight, p.y.get(), at.y,
                   p.convolution.get(), kBackwardX, scratch.get(), bytes, &zero, p.x.get(), at.x);
  } else {
    FOLDGRAD_CUDNN(cudnnConvolutionBackwardFilter, handle(), &one, p.x.get(), at.x, p.y.get(), at.y,
                   p.convolution.get(), kBackwardWeight, scratch.get(), bytes, &zero, p.weight.get(), at.weight);
  }
  return true;
}

}  // namespace foldgrad
