#include "engine/tensor.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/dispatch.h"
#include "engine/memory.h"
#include "engine/tensor_kernels.h"

namespace foldgrad {

Tensor::Tensor(Shape shape, DType dtype, Device device)
    : shape_(std::move(shape)), dtype_(dtype), device_(device), defined_(true) {
  FOLDGRAD_CHECK(size() <= INT64_MAX / std::int64_t(size_of(dtype)), "tensor: {} {} must have fewer than 2^63 bytes",
                 name(dtype), shape_);
  storage_ = memory::allocate(device, bytes());
}

Tensor Tensor::empty(Shape shape, DType dtype, Device device) { return Tensor(std::move(shape), dtype, device); }

Tensor Tensor::zeros(Shape shape, DType dtype, Device device) {
  Tensor t(std::move(shape), dtype, device);
  t.zero();
  return t;
}

Tensor Tensor::full(Shape shape, double value, DType dtype, Device device) {
  Tensor t(std::move(shape), dtype, device);
  dispatch_any(dtype, [&]<class T>(Type<T>) {
    const Fill<T> p{t.data<T>(), T(value), t.size()};
    FOLDGRAD_RUN(device, elementwise, p);
  });
  return t;
}

Tensor Tensor::external(void* memory, Shape shape, DType dtype, std::shared_ptr<void> owner) {
  Tensor t;
  t.storage_ = std::shared_ptr<void>(std::move(owner), memory);
  t.shape_ = std::move(shape), t.dtype_ = dtype;
  t.defined_ = t.external_ = true;
  return t;
}

void Tensor::check_dtype(DType asked) const {
  FOLDGRAD_CHECK(asked == dtype_, "tensor: requested {} data from a tensor of type {}", name(asked), name(dtype_));
}

Tensor Tensor::reshape(std::vector<std::int64_t> sizes) const {
  std::int64_t known = 1;
  int unknown = -1;
  const auto message = [&] {
    return fmt::format("reshape: [{}] does not fit the {} elements of {}", fmt::join(sizes, ", "), size(), shape_);
  };
  for (int i = 0; i < int(sizes.size()); ++i) {
    if (sizes[i] == -1 && unknown < 0)
      unknown = i;
    else
      FOLDGRAD_CHECK(sizes[i] >= 0 && !__builtin_mul_overflow(known, sizes[i], &known), "{}", message());
  }
  FOLDGRAD_CHECK(unknown < 0 ? known == size() : known > 0 && size() % known == 0, "{}", message());
  if (unknown >= 0) sizes[unknown] = size() / known;
  Tensor view = *this;
  view.shape_ = Shape(std::move(sizes));
  return view;
}

Tensor Tensor::slice(std::int64_t begin, std::int64_t end) const {
  FOLDGRAD_CHECK(shape_.rank() > 0 && 0 <= begin && begin <= end && end <= shape_[0],
                 "slice: [{}, {}) must lie within the leading axis of {}", begin, end, shape_);
  Tensor view = *this;
  view.offset_ += std::size_t(begin * shape_.stride(0)) * size_of(dtype_);
  view.shape_ = shape_.with(0, end - begin);
  return view;
}

Tensor Tensor::clone() const {
  if (!defined_) return {};
  Tensor t(shape_, dtype_, device_);
  t.copy_from(*this);
  return t;
}

Tensor Tensor::to(Device device) const {
  if (device == device_ || !defined_) return *this;
  Tensor t(shape_, dtype_, device);
  t.copy_from(*this);
  return t;
}

Tensor Tensor::to(DType dtype) const {
  if (dtype == dtype_ || !defined_) return *this;
  const Tensor source = to(Device::cpu);
  Tensor t(shape_, dtype, Device::cpu);
  dispatch_any(dtype_, [&]<class From>(Type<From>) {
    dispatch_any(dtype, [&]<class To>(Type<To>) {
      // Converts integers to bf16 through double; through float they would be rounded twice.
      using Between = std::conditional_t<std::is_same_v<To, bf16>, double, From>;
      std::transform(source.data<From>(), source.data<From>() + size(), t.data<To>(),
                     [](From v) { return To(Between(v)); });
    });
  });
  return t.to(device_);
}

void Tensor::copy_from(const Tensor& source) {
  FOLDGRAD_CHECK(defined_ && source.defined_ && source.shape_ == shape_ && source.dtype_ == dtype_,
                 "tensor: cannot copy {} into {}", describe(source), describe(*this));
  memory::copy(device_, raw(), source.device_, source.raw(), bytes());
}

void Tensor::zero() { memory::zero(device_, raw(), bytes()); }

double Tensor::item() const {
  FOLDGRAD_CHECK(defined_ && size() == 1, "tensor: item() needs exactly one element, got {}", describe(*this));
  return to(Device::cpu).to(DType::f64).values<double>()[0];
}

}  // namespace foldgrad
