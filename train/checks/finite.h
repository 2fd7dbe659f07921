// Checks of numbers: that they are finite, where a model comes in or is written and where they arise, and that counters
// count.
#pragma once
#include <stdexcept>

#include "models/model.h"

namespace foldgrad {

// The error of NaN or infinity from a computation whose inputs were finite. The message says where.
class NonFiniteError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Treatment of models with weights or statistics that are not finite; `allow` is for inspection.
enum class NonFinite { refuse, allow };

// Returns the index on every axis of an element that is counted through a tensor of this shape.
std::vector<std::int64_t> index_of(std::int64_t element, const Shape& shape);

// Returns "nan at [2, 5]" for the first element that is not finite; empty when there is none, and for integers.
std::string first_non_finite(const Tensor& t);
// Returns "must be finite, got nan at [2, 5]", or, of integers, "must count from 0 to 2^53, got -1": they count
// iterations, which choose a place in a window, and are computed with in f64. Empty for a tensor that a model can have.
std::string reason_to_refuse(const Tensor& t);
// Returns "encoder.layers.0.fc1.weight: nan at [2, 5]" by tensor: parameters in the order of the forward pass, then the
// normalizers' states.
std::vector<std::string> non_finite_tensors(const Model& model);

// Returns the first operation of a pass at inference that does not give finite numbers, "decoder.layers.0.ffn: linear:
// inf at [0, 3, 2]"; empty when all do.
std::string first_non_finite_operation(Model& model, const NamedTensors& inputs, DType dtype);
// Throws NonFiniteError: "WHAT is not finite; it began with " and that operation.
[[noreturn]] void refuse_non_finite(const std::string& what, Model& model, const NamedTensors& inputs, DType dtype);

}  // namespace foldgrad
