// Checks that numbers in models and computations are finite, and that counters are in range.
#pragma once
#include <stdexcept>

#include "models/model.h"

namespace foldgrad {

// The error for NaN or infinity that a computation made from finite inputs. The message says where this happened.
class NonFiniteError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The treatment of a model whose weights or statistics are not finite: refuse it, or allow it for inspection.
enum class NonFinite { refuse, allow };

// Returns the indices, one per axis, of the element at flat position `element` in a tensor of this shape.
std::vector<std::int64_t> index_of(std::int64_t element, const Shape& shape);

// Returns "nan at [2, 5]" for the first element that is not finite, or an empty string if there is none.
std::string first_non_finite(const Tensor& t);
// Returns why a model must not have the tensor: "must be finite, got nan at [2, 5]" or, for integers, "must contain
// counts in [0, 2^53], got -1". (Integers count iterations, choose the position in a window, and enter f64
// computations.) Returns an empty string if a model may have the tensor.
std::string reason_to_refuse(const Tensor& t);
// Returns "encoder.layers.0.fc1.weight: nan at [2, 5]" for each tensor that is not finite: first for parameters, in the
// order of the forward pass, then for the normalizers' states.
std::vector<std::string> non_finite_tensors(const Model& model);

// Returns the first operation of an inference pass whose result is not finite, for example "decoder.layers.0.ffn:
// linear: inf at [0, 3, 2]", or an empty string if all results are finite.
std::string first_non_finite_operation(Model& model, const NamedTensors& inputs, DType dtype);
// Throws NonFiniteError: "WHAT is not finite; the first non-finite value is from ", followed by
// first_non_finite_operation().
[[noreturn]] void refuse_non_finite(const std::string& what, Model& model, const NamedTensors& inputs, DType dtype);

}  // namespace foldgrad
