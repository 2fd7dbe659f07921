// How models use parameters in another dtype.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// Records a parameter and returns it in `dtype`. To get bf16 from f32, this records the parameter by its rounded copy
// instead of casting it, so that its gradient stays exact (Tape::parameter). The copy is Parameter::rounded if training
// keeps one; otherwise this rounds the value.
Var parameter_as(Tape& tape, Parameter& parameter, DType dtype);

}  // namespace foldgrad
