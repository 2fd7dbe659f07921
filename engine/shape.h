// The sizes of a tensor's axes, outermost first. A scalar has no axes.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "engine/check.h"

namespace foldgrad {

class Shape {
 public:
  Shape() = default;
  // Throws std::invalid_argument if a size is negative, or if the product of the nonzero sizes exceeds 2^63 - 1. So no
  // stride of a shape overflows.
  Shape(std::initializer_list<std::int64_t> sizes) : Shape(std::vector<std::int64_t>(sizes)) {}
  explicit Shape(std::vector<std::int64_t> sizes);

  int rank() const { return int(sizes_.size()); }
  // Returns the size of an axis; negative axes count from the end: shape[-1] is the innermost.
  std::int64_t operator[](int axis) const { return sizes_[axis < 0 ? axis + rank() : axis]; }
  std::int64_t elements() const { return elements_; }
  const std::vector<std::int64_t>& sizes() const { return sizes_; }
  auto begin() const { return sizes_.begin(); }
  auto end() const { return sizes_.end(); }

  // These return the shape with one axis resized or removed. The axis may be negative, as in operator[].
  Shape with(int axis, std::int64_t size) const;
  Shape without(int axis) const;
  // Returns the product of the sizes after `axis`: the distance between neighbouring elements along this axis.
  std::int64_t stride(int axis) const;

  std::string str() const;  // returns, for example, "[2, 3]"
  friend bool operator==(const Shape& a, const Shape& b) { return a.sizes_ == b.sizes_; }

 private:
  std::vector<std::int64_t> sizes_;
  std::int64_t elements_ = 1;
};

}  // namespace foldgrad

template <>
struct fmt::formatter<foldgrad::Shape> {
  constexpr auto parse(fmt::format_parse_context& context) const { return context.begin(); }
  auto format(const foldgrad::Shape& shape, fmt::format_context& context) const {
    return fmt::format_to(context.out(), "{}", shape.str());
  }
};
