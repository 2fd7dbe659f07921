#pragma once
#include "engine/tape.h"

namespace foldgrad {

// A parameter in the dtype of activations. In bf16 one of f32 is not cast by an operation that is recorded, but comes
// rounded, and its gradient stays exact (Tape::parameter). It is rounded here unless the tape has been lent the rounded
// values (Tape::lend_rounded).
Var parameter_as(Tape& tape, Parameter& parameter, DType dtype);

}  // namespace foldgrad
