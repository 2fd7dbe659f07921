// Selects templates by dtype and device at run time, and contains the checks that operations share.
#pragma once
#include "engine/fast.h"
#include "engine/tensor.h"

namespace foldgrad {

template <class T>
struct Type {};

// Calls body(Type<T>{}), where T is the C++ type of a floating-point dtype. Error messages begin with `op`.
//   dispatch_floating("relu", x.dtype(), [&]<class T>(Type<T>) { ... });
template <class Body>
decltype(auto) dispatch_floating(const char* op, DType dtype, const Body& body) {
  switch (dtype) {
    case DType::f32:
      return body(Type<float>{});
    case DType::f64:
      return body(Type<double>{});
    case DType::bf16:
      return body(Type<bf16>{});
    default:
      throw std::invalid_argument(fmt::format("{}: dtype must be f32, f64 or bf16, got {}", op, name(dtype)));
  }
}

template <class Body>
decltype(auto) dispatch_any(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::i32:
      return body(Type<std::int32_t>{});
    case DType::i64:
      return body(Type<std::int64_t>{});
    case DType::u8:
      return body(Type<std::uint8_t>{});
    default:
      return dispatch_floating("tensor", dtype, body);
  }
}

// Runs a kernel: FOLDGRAD_RUN(x.device(), softmax, p) calls softmax_cpu(p) or softmax_cuda(p), or a fast kernel that
// takes p (fast.h). Grep for these names. Builds without CUDA need no softmax_cuda, since no tensor is on `cuda`.
#ifdef FOLDGRAD_HAVE_CUDA
#define FOLDGRAD_RUN(device, NAME, ...)                                                       \
  ((device) == ::foldgrad::Device::cpu ? NAME##_cpu(__VA_ARGS__) : [&](auto&&... arguments) { \
    if (!::foldgrad::run_faster(arguments...)) NAME##_cuda(arguments...);                     \
  }(__VA_ARGS__))
#else
#define FOLDGRAD_RUN(device, NAME, ...) NAME##_cpu(__VA_ARGS__)
#endif

// Throws std::invalid_argument unless the operand has this shape, this dtype (default: like's) and like's device:
//   check_operand("layer_norm", "gamma", gamma, {C}, x, "x")
// throws "layer_norm: gamma must be f32 [8] on cpu (x is f32 [2, 8] on cpu), got f32 [4] on cpu".
void check_operand(const char* op, const char* what, const Tensor& operand, const Shape& shape, DType dtype,
                   const Tensor& like, const char* like_name);
inline void check_operand(const char* op, const char* what, const Tensor& operand, const Shape& shape,
                          const Tensor& like, const char* like_name) {
  check_operand(op, what, operand, shape, like.dtype(), like, like_name);
}
// Throws std::invalid_argument unless x is defined, has a floating-point dtype, and has at least `rank` axes.
void check_floating(const char* op, const char* what, const Tensor& x, int rank = 0);
// Checks x [..., C] as check_floating() does. gamma and beta must be [C] with x's dtype and device. Returns C.
std::int64_t check_channels(const char* op, const Tensor& x, const Tensor& gamma, const Tensor& beta);
// Returns `axis` as an index from the front. Throws std::invalid_argument if the shape has no such axis.
int check_axis(const char* op, int axis, const Shape& shape);

// Returns "f32 [2, 3] on cpu", or "nothing" for an undefined tensor.
std::string describe(const Tensor& tensor);

// Returns the tensor's data, or null if the tensor is undefined.
template <class T>
T* data_or_null(const Tensor& t) {
  return t.defined() ? t.data<T>() : nullptr;
}

}  // namespace foldgrad
