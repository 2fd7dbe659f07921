// conv2d by cuDNN 9. Compiled by nvcc 13, but so far run on no GPU.
#include <cudnn.h>

#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

#include "engine/cuda/launch.h"
#include "engine/cuda/runtime/per_device.h"
#include "engine/gemm/tf32.h"
#include "engine/memory.h"
#include "ops/conv2d/conv2d_kernels.h"

namespace foldgrad {
namespace {

// All of them are deterministic; ALGO_0 of the two backward passes is not.
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

Owned<cudnnTensorDescriptor_t> tensor(cudnnTensorFormat_t format, cudnnDataType_t type, std::int64_t n, std::int64_t c,
                                      std::int64_t h, std::int64_t w) {
  cudnnTensorDescriptor_t d;
  FOLDGRAD_CUDNN(cudnnCreateTensorDescriptor, &d);
  Owned<cudnnTensorDescriptor_t> owned(d, cudnnDestroyTensorDescriptor);
  FOLDGRAD_CUDNN(cudnnSetTensor4dDescriptor, d, format, type, int(n), int(c), int(h), int(w));
  return owned;
}

// The four descriptors of one convolution, and the factors that its calls take: double for f64, otherwise float.
struct Problem {
  cudnnTensorFormat_t format;
  cudnnDataType_t type;
  Owned<cudnnTensorDescriptor_t> x, y, bias;
  Owned<cudnnFilterDescriptor_t> weight{nullptr, cudnnDestroyFilterDescriptor};
  Owned<cudnnConvolutionDescriptor_t> convolution{nullptr, cudnnDestroyConvolutionDescriptor};

  Problem(DType dtype, const Conv2dSizes& s, std::int64_t out)
      : format(s.channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW),
        type(dtype == DType::f64   ? CUDNN_DATA_DOUBLE
             : dtype == DType::f32 ? CUDNN_DATA_FLOAT
                                   : CUDNN_DATA_BFLOAT16),
        x(tensor(format, type, s.batch, s.channels, s.height, s.width)),
        y(tensor(format, type, s.batch, out, s.out_height, s.out_width)),
        bias(tensor(format, type, 1, out, 1, 1)) {
    cudnnFilterDescriptor_t filter;
    FOLDGRAD_CUDNN(cudnnCreateFilterDescriptor, &filter);
    weight.reset(filter);
    FOLDGRAD_CUDNN(cudnnSetFilter4dDescriptor, filter, type, format, int(out), int(s.channels), int(s.kernel_height),
                   int(s.kernel_width));
    cudnnConvolutionDescriptor_t d;
    FOLDGRAD_CUDNN(cudnnCreateConvolutionDescriptor, &d);
    convolution.reset(d);
    const int padding = int(s.padding), stride = int(s.stride);
    FOLDGRAD_CUDNN(cudnnSetConvolution2dDescriptor, d, padding, padding, stride, stride, 1, 1, CUDNN_CROSS_CORRELATION,
                   dtype == DType::f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT);
    // With any other choice f32 would be multiplied as TensorFloat-32.
    const bool tensor_cores = dtype == DType::bf16 || (dtype == DType::f32 && tf32_allowed());
    FOLDGRAD_CUDNN(cudnnSetConvolutionMathType, d, tensor_cores ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH);
  }

  const void* factor(bool one) const {
    static const double f64[] = {0, 1};
    static const float f32[] = {0, 1};
    return type == CUDNN_DATA_DOUBLE ? static_cast<const void*>(f64 + one) : f32 + one;
  }
  const void* factor(GradMode mode) const { return factor(mode == GradMode::add); }
};

}  // namespace

// Not every combination of layout, type and pass has the algorithms of above.
bool conv2d_has_cudnn(DType dtype, const Conv2dSizes& s, std::int64_t out) {
  const std::lock_guard lock(mutex);
  const CudaDeviceGuard guard;
  const Problem p(dtype, s, out);
  std::size_t bytes = 0;
  return cudnnGetConvolutionForwardWorkspaceSize(handle(), p.x.get(), p.weight.get(), p.convolution.get(), p.y.get(),
                                                 kForward, &bytes) == CUDNN_STATUS_SUCCESS &&
         cudnnGetConvolutionBackwardDataWorkspaceSize(handle(), p.weight.get(), p.y.get(), p.convolution.get(),
                                                      p.x.get(), kBackwardX, &bytes) == CUDNN_STATUS_SUCCESS &&
         cudnnGetConvolutionBackwardFilterWorkspaceSize(handle(), p.x.get(), p.y.get(), p.convolution.get(),
                                                        p.weight.get(), kBackwardWeight,
                                                        &bytes) == CUDNN_STATUS_SUCCESS;
}

void conv2d_forward_cudnn(DType dtype, const Conv2dSizes& s, std::int64_t out, void* y, const void* x,
                          const void* weight, const void* bias) {
  const std::lock_guard lock(mutex);
  const CudaDeviceGuard guard;
  const Problem p(dtype, s, out);
  std::size_t bytes = 0;
  FOLDGRAD_CUDNN(cudnnGetConvolutionForwardWorkspaceSize, handle(), p.x.get(), p.weight.get(), p.convolution.get(),
                 p.y.get(), kForward, &bytes);
  const auto scratch = memory::allocate(Device::cuda, bytes);
  FOLDGRAD_CUDNN(cudnnConvolutionForward, handle(), p.factor(true), p.x.get(), x, p.weight.get(), weight,
                 p.convolution.get(), kForward, scratch.get(), bytes, p.factor(false), p.y.get(), y);
  if (bias) FOLDGRAD_CUDNN(cudnnAddTensor, handle(), p.factor(true), p.bias.get(), bias, p.factor(true), p.y.get(), y);
}

void conv2d_backward_cudnn(DType dtype, const Conv2dSizes& s, std::int64_t out, const Conv2dGrads& g, const void* dy,
                           const void* x, const void* weight) {
  const std::lock_guard lock(mutex);
  const CudaDeviceGuard guard;
  const Problem p(dtype, s, out);
  std::size_t bytes = 0;
  if (g.dx) {
    FOLDGRAD_CUDNN(cudnnGetConvolutionBackwardDataWorkspaceSize, handle(), p.weight.get(), p.y.get(),
                   p.convolution.get(), p.x.get(), kBackwardX, &bytes);
    const auto scratch = memory::allocate(Device::cuda, bytes);
    FOLDGRAD_CUDNN(cudnnConvolutionBackwardData, handle(), p.factor(true), p.weight.get(), weight, p.y.get(), dy,
                   p.convolution.get(), kBackwardX, scratch.get(), bytes, p.factor(g.dx_mode), p.x.get(), g.dx);
  }
  if (g.dweight) {
    FOLDGRAD_CUDNN(cudnnGetConvolutionBackwardFilterWorkspaceSize, handle(), p.x.get(), p.y.get(), p.convolution.get(),
                   p.weight.get(), kBackwardWeight, &bytes);
    const auto scratch = memory::allocate(Device::cuda, bytes);
    FOLDGRAD_CUDNN(cudnnConvolutionBackwardFilter, handle(), p.factor(true), p.x.get(), x, p.y.get(), dy,
                   p.convolution.get(), kBackwardWeight, scratch.get(), bytes, p.factor(g.dweight_mode), p.weight.get(),
                   g.dweight);
  }
  if (g.dbias)
    FOLDGRAD_CUDNN(cudnnConvolutionBackwardBias, handle(), p.factor(true), p.y.get(), dy, p.factor(g.dbias_mode),
                   p.bias.get(), g.dbias);
}

}  // namespace foldgrad
