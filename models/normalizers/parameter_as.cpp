#include "models/normalizers/parameter_as.h"

#include "ops/cast/cast.h"

namespace foldgrad {

Var parameter_as(Tape& tape, Parameter& parameter, DType dtype) {
  const Tensor& value = parameter.value;
  if (value.dtype() != DType::f32 || dtype != DType::bf16) return cast(tape.parameter(parameter), dtype);
  if (tape.recording() && parameter.rounded.defined()) return tape.parameter(parameter, parameter.rounded);
  Tape unrecorded(/*recording=*/false);
  return tape.parameter(parameter, cast(unrecorded.constant(value), dtype).value());
}

}  // namespace foldgrad
