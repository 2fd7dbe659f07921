// Tests the engines that cuDNN proposes for the convolutions of our models. This needs only a device's properties, not
// a device.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "ops/conv2d/cudnn_plan.h"

namespace foldgrad {
namespace {

// The properties of an H100, in the format in which cuDNN writes the properties of a real device.
constexpr std::string_view kH100 = R"({
  "deviceName": "NVIDIA H100 80GB HBM3", "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0, "pciDeviceId": 0,
  "multiProcessorCount": 132, "warpSize": 32, "maxGridSize": [2147483647, 65535, 65535],
  "maxBlockSize": [1024, 1024, 64], "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "maxCtasPerSM": 32,
  "regsPerBlock": 65536, "maxRegistersPerSM": 65536, "maxSharedMemoryPerBlock": 49152,
  "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024, "totalGlobalMem": 85029158912,
  "l2CacheSize": 52428800, "smClockRateKHz": 1980000, "memClockRateKHz": 2619000, "isTccDriver": 0,
  "supportCoopLaunch": 1})";

cudnnBackendDescriptor_t h100(CudnnDescriptors& to) {
  const cudnnBackendDescriptor_t d = to.make(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  check_cudnn(cudnnBackendSetAttribute(d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                       std::int64_t(kH100.size()), kH100.data()),
              "cudnnBackendSetAttribute");
  check_cudnn(cudnnBackendFinalize(d), "cudnnBackendFinalize");
  return d;
}

// Returns the sizes of a convolution of 32 x 32 images. A 3 x 3 kernel has stride 1 and padding 1, and a 7 x 7 kernel
// has stride 4 and padding 2.
Conv2dSizes sizes(std::int64_t kernel, std::int64_t channels) {
  const bool small = kernel == 3;
  return {.batch = 64,
          .channels = channels,
          .height = 32,
          .width = 32,
          .kernel_height = kernel,
          .kernel_width = kernel,
          .out_height = small ? 32 : 8,
          .out_width = small ? 32 : 8,
          .stride = small ? 1 : 4,
          .padding = small ? 1 : 2,
          .end_padding = small ? 1 : 2};
}

// An engine's numerical notes may contain only tensor cores and strict propagation of NaN, but not non-determinism,
// rounded sums, or Winograd and Fourier transforms. Tensor cores round f32 operands, so f32 must not use them unless
// TensorFloat-32 is allowed.
TEST(CudnnPlan, EveryProductHasAnEngineThatRoundsNoFurtherThanItsType) {
  CudnnDescriptors descriptors;
  const cudnnBackendDescriptor_t device = h100(descriptors);
  for (const auto& [pass, adds_bias] :
       {std::pair(Conv2dPass::y, false), {Conv2dPass::y, true}, {Conv2dPass::dx, false}, {Conv2dPass::dweight, false}})
    for (const std::int64_t kernel : {3, 7})
      for (const std::int64_t channels : {3, 64})
        for (const auto& [dtype, tf32] : {std::pair(DType::f32, false), {DType::f32, true}, {DType::bf16, false}}) {
          SCOPED_TRACE(fmt::format("pass {}, kernel {}, {} channels, {}{}{}", int(pass), kernel, channels, name(dtype),
                                   adds_bias ? ", bias" : "", tf32 ? ", TensorFloat-32" : ""));
          const CudnnPlan plan({.pass = pass, .dtype = dtype, .s = sizes(kernel, channels), .out = 128}, adds_bias,
                               tf32, device);
          ASSERT_TRUE(plan.covered());
          EXPECT_LT(plan.workspace(), std::size_t(1) << 27);
          const bool may_use_tensor_cores = dtype == DType::bf16 || tf32;
          const auto tensor_cores = std::ranges::count(plan.notes(), CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
          const auto nans = std::ranges::count(plan.notes(), CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP);
          EXPECT_EQ(tensor_cores + nans, std::ssize(plan.notes()));
          EXPECT_LE(tensor_cores, may_use_tensor_cores);
          if (kernel == 3 && channels == 64) {
            EXPECT_EQ(tensor_cores, may_use_tensor_cores);
          }
        }
}

TEST(CudnnPlan, NeedsADeviceOnlyToRun) {
  CudnnDescriptors descriptors;
  const Conv2dProduct product{.pass = Conv2dPass::y, .dtype = DType::f32, .s = sizes(3, 64), .out = 128};
  const CudnnPlan plan(product, /*adds_bias=*/true, /*tf32=*/false, h100(descriptors));
  alignas(kCudnnAlignment) static char buffer[kCudnnAlignment];
  try {
    plan.run(nullptr, {.x = buffer, .weight = buffer, .y = buffer, .bias = buffer}, buffer);
    ADD_FAILURE();
  } catch (const std::runtime_error& e) {
    EXPECT_EQ(std::string(e.what()).substr(0, 34), "conv2d: cudnnBackendExecute failed");
  }
}

// The program keeps one plan for each convolution, pass (y, dx or dweight) and batch size, and never drops a plan. So
// plans must be small: less than 256 KiB each.
TEST(CudnnPlan, KeepsNoneOfTheProposals) {
  CudnnDescriptors descriptors;
  const cudnnBackendDescriptor_t device = h100(descriptors);
  std::vector<std::unique_ptr<CudnnPlan>> plans;
  const auto make = [&](std::int64_t batch) {
    Conv2dProduct product{.pass = Conv2dPass::y, .dtype = DType::bf16, .s = sizes(3, 64), .out = 128};
    product.s.batch = batch;
    plans.push_back(std::make_unique<CudnnPlan>(product, /*adds_bias=*/true, /*tf32=*/false, device));
  };
  make(1);  // the first plan also allocates memory that cuDNN keeps
  const std::size_t before = mallinfo2().uordblks;
  for (std::int64_t batch = 2; batch < 34; ++batch) make(batch);
  EXPECT_LT((mallinfo2().uordblks - before) / 32, std::size_t(1) << 18);
  for (const auto& plan : plans) EXPECT_LT(plan->workspace(), std::size_t(1) << 27);
}

}  // namespace
}  // namespace foldgrad
