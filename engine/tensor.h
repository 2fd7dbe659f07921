// A dense, row-major array on one device. A Tensor is a handle, like a pointer: copies share storage, clone() copies
// the values, and data() of a const Tensor is writable. zero() and copy_from() are for owners, so they are not const.
#pragma once
#include <memory>
#include <vector>

#include "engine/device.h"
#include "engine/dtype.h"
#include "engine/shape.h"

namespace foldgrad {

class Tensor {
 public:
  Tensor() = default;  // creates an undefined tensor, which has no storage

  // Each factory throws std::runtime_error if the device has no memory left, and std::invalid_argument if the tensor
  // would take 2^63 bytes or more.
  static Tensor empty(Shape shape, DType dtype, Device device = Device::cpu);  // the elements are uninitialised
  static Tensor zeros(Shape shape, DType dtype, Device device = Device::cpu);
  static Tensor full(Shape shape, double value, DType dtype, Device device = Device::cpu);
  // Takes the values in row-major order. Throws std::invalid_argument unless there are shape.elements() values.
  template <class T>
  static Tensor of(Shape shape, const std::vector<T>& values, Device device = Device::cpu);
  // Wraps row-major host memory that foldgrad did not allocate and that may be unaligned. `owner` keeps the memory
  // alive until the last tensor that shares it is gone. Neither operations nor backward passes write to this memory.
  static Tensor external(void* memory, Shape shape, DType dtype, std::shared_ptr<void> owner);

  bool defined() const { return defined_; }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  std::int64_t size() const { return shape_.elements(); }
  std::size_t bytes() const { return defined_ ? std::size_t(size()) * size_of(dtype_) : 0; }

  // Returns element 0's address on device(), or null if there is none. Throws std::invalid_argument if T is wrong.
  template <class T>
  T* data() const {
    check_dtype(dtype_of<T>);
    return static_cast<T*>(raw());
  }
  void* raw() const { return storage_ ? static_cast<char*>(storage_.get()) + offset_ : nullptr; }
  bool shares_storage_with(const Tensor& other) const { return storage_ && storage_ == other.storage_; }
  // Returns true if the storage may be overwritten, that is, if foldgrad allocated it and no other tensor shares it.
  bool owns_storage() const { return !external_ && storage_.use_count() == 1; }
  bool is_external() const { return external_; }

  // These return views of the same storage. reshape() infers a size given as -1. slice() cuts along the leading axis.
  Tensor reshape(std::vector<std::int64_t> sizes) const;
  Tensor reshape(const Shape& shape) const { return reshape(shape.sizes()); }
  Tensor reshape(std::initializer_list<std::int64_t> sizes) const { return reshape(std::vector<std::int64_t>(sizes)); }
  Tensor slice(std::int64_t begin, std::int64_t end) const;

  Tensor clone() const;
  Tensor to(Device device) const;  // returns the same storage if the tensor is already on `device`
  // Converts on the host, element by element, and rounds once to nearest. The operation `cast` is faster. (i64 to bf16
  // goes through f64 and rounds twice beyond 2^53.)
  Tensor to(DType dtype) const;
  // Copies the values of `source`, a tensor of the same shape and dtype on any device.
  void copy_from(const Tensor& source);
  void zero();
  // Returns the values on the host, in row-major order.
  template <class T>
  std::vector<T> values() const;
  // Returns the value of a one-element tensor as a double.
  double item() const;

 private:
  Tensor(Shape shape, DType dtype, Device device);
  void check_dtype(DType asked) const;

  std::shared_ptr<void> storage_;
  std::size_t offset_ = 0;  // offset into the storage, in bytes
  Shape shape_;
  DType dtype_ = DType::f32;
  Device device_ = Device::cpu;
  bool defined_ = false;
  bool external_ = false;
};

template <class T>
Tensor Tensor::of(Shape shape, const std::vector<T>& values, Device device) {
  FOLDGRAD_CHECK(std::int64_t(values.size()) == shape.elements(), "tensor: shape {} needs {} values, got {}", shape,
                 shape.elements(), values.size());
  Tensor t = empty(std::move(shape), dtype_of<T>, device);
  memory::copy(device, t.raw(), Device::cpu, values.data(), t.bytes());
  return t;
}

template <class T>
std::vector<T> Tensor::values() const {
  FOLDGRAD_CHECK(defined_, "tensor: an undefined tensor has no values");
  check_dtype(dtype_of<T>);
  std::vector<T> values(size());
  memory::copy(Device::cpu, values.data(), device_, raw(), bytes());
  return values;
}

}  // namespace foldgrad
