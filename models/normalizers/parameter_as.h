#pragma once
#include "engine/tape.h"

namespace foldgrad {

// Returns a parameter in the dtype of activations. In bf16 an f32 parameter is not cast by a recorded operation: it
// comes rounded, and its gradient stays exact (Tape::parameter). A recording takes the copy that training keeps
// (Parameter::rounded); without one the value is rounded here.
Var parameter_as(Tape& tape, Parameter& parameter, DType dtype);

}  // namespace foldgrad
