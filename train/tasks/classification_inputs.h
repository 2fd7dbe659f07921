// What `foldgrad run` reads and writes of a model that tells images apart.
#pragma once
#include "models/vit/vit.h"
#include "train/tasks/families.h"

namespace foldgrad {

// images, [images, S, S, 3]: u8, or f32 or f64 and normalized already.
NamedTensors read_image_inputs(const Model& model, const std::string& path);

// logits [images, classes].
std::map<std::string, RunResult> classification_results(Model& model, const NamedTensors& inputs,
                                                        const ForwardPass& pass);

}  // namespace foldgrad
