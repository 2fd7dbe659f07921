// Checks of models that tell images apart, beside those of every model (train/checks/model_checks.h).
#pragma once
#include "models/model.h"
#include "train/checks/check_result.h"

namespace foldgrad {

// At inference the other images of a batch change no logit of the first four; f64 on one device. Skipped for one image.
CheckResult check_other_images(Model& model, const NamedTensors& inputs);

}  // namespace foldgrad
