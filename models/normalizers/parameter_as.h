// The conversion of parameters to the dtype in which a model uses them.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// Records a parameter and returns it in `dtype`. If an f32 parameter is used in bf16, records a rounded copy rather
// than a cast, so that the gradient stays exact (Tape::parameter). The copy is Parameter::rounded if training keeps
// one; otherwise the value is rounded here.
Var parameter_as(Tape& tape, Parameter& parameter, DType dtype);

}  // namespace foldgrad
