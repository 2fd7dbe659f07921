#include "engine/shape.h"

#include <fmt/format.h>

namespace foldgrad {

Shape::Shape(std::vector<std::int64_t> sizes) : sizes_(std::move(sizes)) {
  bool empty = false;
  for (std::int64_t size : sizes_) {
    FOLDGRAD_CHECK(size >= 0, "shape: sizes must not be negative, got {}", str());
    empty |= size == 0;
  }
  for (std::int64_t size : sizes_)
    FOLDGRAD_CHECK(size == 0 || !__builtin_mul_overflow(elements_, size, &elements_),
                   "shape: there must be at most 2^63 - 1 elements, got {}", str());
  if (empty) elements_ = 0;
}

Shape Shape::with(int axis, std::int64_t size) const {
  std::vector<std::int64_t> sizes = sizes_;
  sizes[axis < 0 ? axis + rank() : axis] = size;
  return Shape(std::move(sizes));
}

Shape Shape::without(int axis) const {
  std::vector<std::int64_t> sizes = sizes_;
  sizes.erase(sizes.begin() + (axis < 0 ? axis + rank() : axis));
  return Shape(std::move(sizes));
}

std::int64_t Shape::stride(int axis) const {
  std::int64_t stride = 1;
  for (int i = (axis < 0 ? axis + rank() : axis) + 1; i < rank(); ++i) stride *= sizes_[i];
  return stride;
}

std::string Shape::str() const { return fmt::format("[{}]", fmt::join(sizes_, ", ")); }

}  // namespace foldgrad
