#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

#include "ops/conv2d/cudnn_plan.h"

namespace foldgrad {
namespace {

using Descriptor = cudnnBackendDescriptor_t;
using Attribute = cudnnBackendAttributeName_t;
using AttributeType = cudnnBackendAttributeType_t;
using Sizes = std::array<std::int64_t, 4>;
using Pair = std::array<std::int64_t, 2>;

enum class Id : std::int64_t { x = 1, weight, y, bias, product };  // the ids of a graph's tensors

void set(Descriptor d, Attribute name, AttributeType type, const void* values, std::int64_t count) {
  check_cudnn(cudnnBackendSetAttribute(d, name, type, count, values), "cudnnBackendSetAttribute");
}
template <class T>
void set(Descriptor d, Attribute name, AttributeType type, const T& value) {
  set(d, name, type, &value, 1);
}
template <class T, std::size_t N>
void set(Descriptor d, Attribute name, AttributeType type, const std::array<T, N>& values) {
  set(d, name, type, values.data(), N);
}
// Gets the values of an attribute, at most values.size() of them.
template <class T>
void get(Descriptor d, Attribute name, AttributeType type, std::vector<T>& values) {
  std::int64_t count = 0;
  check_cudnn(cudnnBackendGetAttribute(d, name, type, std::int64_t(values.size()), &count, values.data()),
              "cudnnBackendGetAttribute");
  values.resize(std::min(values.size(), std::size_t(count)));
}

Descriptor finished(Descriptor d) {
  check_cudnn(cudnnBackendFinalize(d), "cudnnBackendFinalize");
  return d;
}
// Finalizes a descriptor. Returns false if cuDNN does not support it.
bool is_supported(Descriptor d) {
  const cudnnStatus_t status = cudnnBackendFinalize(d);
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) return false;
  check_cudnn(status, "cudnnBackendFinalize");
  return true;
}

class ConvolutionGraph {
 public:
  ConvolutionGraph(CudnnDescriptors& to, const Conv2dProduct& p)
      : to_(to), p_(p), type_(p.dtype == DType::f32 ? CUDNN_DATA_FLOAT : CUDNN_DATA_BFLOAT16) {}

  Descriptor of(bool adds_bias) {
    const Sizes sizes{p_.s.batch, p_.out, p_.s.out_height, p_.s.out_width};
    const Descriptor y = tensor(Id::y, type_, sizes, channels_last(sizes));
    std::vector<Descriptor> operations;
    if (adds_bias) {
      const Descriptor sum = tensor(Id::product, CUDNN_DATA_FLOAT, sizes, channels_last(sizes));
      operations = {product(sum), addition(sum, y)};
    } else {
      operations = {product(y)};
    }
    const Descriptor graph = to_.make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations.data(),
        std::int64_t(operations.size()));
    return finished(graph);
  }

 private:
  static Sizes channels_last(const Sizes& s) { return {s[1] * s[2] * s[3], 1, s[3] * s[1], s[1]}; }

  Descriptor tensor(Id id, cudnnDataType_t type, const Sizes& sizes, const Sizes& strides) {
    const Descriptor d = to_.make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, std::int64_t(id));
    set(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
    set(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, sizes);
    set(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides);
    set(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, std::int64_t(kCudnnAlignment));
    set(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, id == Id::product);
    return finished(d);
  }

  Descriptor convolution() {
    const Conv2dSizes& s = p_.s;
    const Descriptor d = to_.make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set(d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    set(d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION);
    set(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, std::int64_t(2));
    set(d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, Pair{s.stride, s.stride});
    set(d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, Pair{s.padding, s.padding});
    set(d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, Pair{s.end_padding, s.end_padding});
    set(d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, Pair{1, 1});
    return finished(d);
  }

  // Describes the product, which computes y, dx or dweight from the other two tensors.
  Descriptor product(Descriptor y) {
    const Conv2dSizes& s = p_.s;
    const Sizes image{s.batch, s.channels, s.height, s.width};
    // There are groups if the weight has fewer channels than x.
    const Sizes weight{p_.out, s.channels / p_.groups, s.kernel_height, s.kernel_width};
    const Descriptor x = tensor(Id::x, type_, image, channels_last(image));
    const Descriptor w =
        tensor(Id::weight, type_, weight, {s.values() / p_.groups, weight[2] * weight[3], weight[3], 1});
    const bool forward = p_.pass == Conv2dPass::y, data = p_.pass == Conv2dPass::dx;
    const Descriptor d = to_.make(forward ? CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR
                                  : data  ? CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
                                          : CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
    const auto one_of = [&](Attribute of_forward, Attribute of_data, Attribute of_filter) {
      return forward ? of_forward : data ? of_data : of_filter;
    };
#define FOLDGRAD_CUDNN_NAME(forward, data, filter)                                                             \
  one_of(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_##forward, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_##data, \
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_##filter)
    set(d, FOLDGRAD_CUDNN_NAME(ALPHA, ALPHA, ALPHA), CUDNN_TYPE_FLOAT, 1.0f);
    set(d, FOLDGRAD_CUDNN_NAME(BETA, BETA, BETA), CUDNN_TYPE_FLOAT, 0.0f);
    set(d, FOLDGRAD_CUDNN_NAME(CONV_DESC, CONV_DESC, CONV_DESC), CUDNN_TYPE_BACKEND_DESCRIPTOR, convolution());
    set(d, FOLDGRAD_CUDNN_NAME(W, W, DW), CUDNN_TYPE_BACKEND_DESCRIPTOR, w);
    set(d, FOLDGRAD_CUDNN_NAME(X, DX, X), CUDNN_TYPE_BACKEND_DESCRIPTOR, x);
    set(d, FOLDGRAD_CUDNN_NAME(Y, DY, DY), CUDNN_TYPE_BACKEND_DESCRIPTOR, y);
#undef FOLDGRAD_CUDNN_NAME
    return finished(d);
  }

  Descriptor addition(Descriptor product, Descriptor y) {
    const Descriptor add = to_.make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(add, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, CUDNN_POINTWISE_ADD);
    set(add, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    const Descriptor d = to_.make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set(d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR, finished(add));
    set(d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, product);
    const Sizes bias{1, p_.out, 1, 1};
    set(d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR,
        tensor(Id::bias, type_, bias, channels_last(bias)));
    set(d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, y);
    return finished(d);
  }

  CudnnDescriptors& to_;
  const Conv2dProduct& p_;
  const cudnnDataType_t type_;
};

// Returns the engines and their settings in the order in which the heuristics rank them.
std::vector<Descriptor> proposals(CudnnDescriptors& to, Descriptor graph, cudnnBackendHeurMode_t mode,
                                  Descriptor device) {
  constexpr std::size_t kMost = 64;
  const Descriptor heuristic = to.make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  set(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, graph);
  set(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  set(heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, device);
  if (!is_supported(heuristic)) return {};
  std::vector<Descriptor> all;
  for (std::size_t i = 0; i < kMost; ++i) all.push_back(to.make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
  get(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, all);
  return all;
}

std::vector<cudnnBackendNumericalNote_t> notes_of(CudnnDescriptors& to, Descriptor proposal) {
  std::vector<Descriptor> engine{to.make(CUDNN_BACKEND_ENGINE_DESCRIPTOR)};
  get(proposal, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, engine);
  std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  get(engine.at(0), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, notes);
  return notes;
}

}  // namespace

void check_cudnn(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 1024> why{};
  cudnnGetLastErrorString(why.data(), why.size());
  throw std::runtime_error(std::string("conv2d: ") + call + " failed: " + cudnnGetErrorString(status) + " " +
                           why.data());
}

Descriptor CudnnDescriptors::make(cudnnBackendDescriptorType_t type) {
  Descriptor made;
  check_cudnn(cudnnBackendCreateDescriptor(type, &made), "cudnnBackendCreateDescriptor");
  made_.emplace_back(made, cudnnBackendDestroyDescriptor);
  return made;
}

CudnnPlan::CudnnPlan(const Conv2dProduct& p, bool adds_bias, bool tf32, Descriptor device) {
  CudnnDescriptors for_search;  // takes more than 1 MiB; not kept, since a plan copies its input
  const Descriptor graph = ConvolutionGraph(for_search, p).of(adds_bias);
  const auto allowed = [tensor_cores = p.dtype == DType::bf16 || tf32](cudnnBackendNumericalNote_t note) {
    return note == CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP || (note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE && tensor_cores);
  };
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    for (const Descriptor proposal : proposals(for_search, graph, mode, device)) {
      notes_ = notes_of(for_search, proposal);
      if (!std::ranges::all_of(notes_, allowed)) continue;
      const Descriptor plan = descriptors_.make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, proposal);
      set(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, device);
      if (!is_supported(plan)) continue;
      plan_ = plan;
      return;
    }
}

std::size_t CudnnPlan::workspace() const {
  std::vector<std::int64_t> bytes(1);
  get(plan_, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, bytes);
  return std::size_t(bytes.at(0));
}

void CudnnPlan::run(cudnnHandle_t handle, const Conv2dBuffers& at, void* workspace) const {
  CudnnDescriptors own;
  const Descriptor pack = own.make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  const std::array<Id, 4> ids{Id::x, Id::weight, Id::y, Id::bias};
  const std::array<void*, 4> buffers{at.x, at.weight, at.y, const_cast<void*>(at.bias)};
  const std::int64_t count = at.bias ? 4 : 3;
  set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids.data(), count);
  set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, buffers.data(), count);
  set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  check_cudnn(cudnnBackendExecute(handle, plan_, finished(pack)), "cudnnBackendExecute");
}

Descriptor cudnn_device(CudnnDescriptors& to, cudnnHandle_t handle) {
  const Descriptor d = to.make(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  set(d, CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, handle);
  return finished(d);
}

}  // namespace foldgrad
