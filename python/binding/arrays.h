// Arrays of Python as tensors, and tensors as arrays.
#pragma once
#include "python/binding/casters.h"

namespace foldgrad::python {

// Returns a tensor of the values of a NumPy array, an object with __dlpack__ or __array__, or nested lists of numbers.
// Read-only arrays share their memory; so do all others if `copy` is false. Throws nb::type_error for element types
// other than ours, nb::value_error for masked arrays and for what cannot be shared.
Tensor to_tensor(nb::handle array, bool copy = true);
NamedTensors to_tensors(const Dict& arrays);

// Returns a NumPy array over the tensor's memory, which is written through it unless the tensor is external.
Any to_numpy(const Tensor& tensor);
// Returns an object with __dlpack__ over the tensor's memory.
nb::object to_dlpack(const Tensor& tensor);

}  // namespace foldgrad::python
