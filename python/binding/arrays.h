// Conversions between Python arrays and tensors.
#pragma once
#include "python/binding/casters.h"

namespace foldgrad::python {

// Returns a tensor with the values of a NumPy array, an object with __dlpack__ or __array__, or nested lists of
// numbers. Shares the memory of contiguous read-only NumPy arrays and, if `copy` is false, of all other arrays. Throws
// nb::type_error for unsupported element types, nb::value_error for masked arrays, and std::invalid_argument for memory
// that cannot be shared and for DLPack tensors that require a gradient or are not in contiguous host memory.
Tensor to_tensor(nb::handle array, bool copy = true);
NamedTensors to_tensors(const Dict& arrays);

// Returns a NumPy array over the tensor's memory. If the tensor is external, the array is read-only.
Any to_numpy(const Tensor& tensor);
// Returns an object with __dlpack__ over the tensor's memory.
nb::object to_dlpack(const Tensor& tensor);

}  // namespace foldgrad::python
