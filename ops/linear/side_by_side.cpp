#include "ops/linear/side_by_side.h"

namespace foldgrad {

bool side_by_side(const std::vector<Tensor>& tensors) {
  for (std::size_t k = 1; k < tensors.size(); ++k) {
    const Tensor &before = tensors[k - 1], &next = tensors[k];
    if (!next.shares_storage_with(before) || next.dtype() != before.dtype()) return false;
    if (next.raw() != static_cast<char*>(before.raw()) + before.bytes()) return false;
  }
  return true;
}

std::vector<Tensor> empty_side_by_side(const std::vector<Shape>& shapes, DType dtype, Device device) {
  std::int64_t size = 0;
  for (const Shape& shape : shapes) size += shape.elements();
  const Tensor all = Tensor::empty({size}, dtype, device);
  std::vector<Tensor> tensors;
  std::int64_t begin = 0;
  for (const Shape& shape : shapes) {
    tensors.push_back(all.slice(begin, begin + shape.elements()).reshape(shape));
    begin += shape.elements();
  }
  return tensors;
}

}  // namespace foldgrad
