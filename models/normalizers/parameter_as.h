// How models use parameters in another dtype.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// Records a parameter and returns it in `dtype`. For an f32 parameter in bf16, records its rounded copy rather than a
// cast, so that the gradient stays exact (Tape::parameter). The copy is Parameter::rounded if training keeps one;
// otherwise the value is rounded here.
Var parameter_as(Tape& tape, Parameter& parameter, DType dtype);

}  // namespace foldgrad
