// Inputs and results of `foldgrad run` for a Transformer.
#pragma once
#include "models/transformer/transformer.h"
#include "train/tasks/families.h"

namespace foldgrad {

// source and input, i64 or i32 [sentences, tokens]; their masks, u8, where they are not what is no padding.
NamedTensors read_translation_inputs(const Model& model, const std::string& path);

// logits, and memory: the encoder's output. Both are zero where the masks are.
NamedTensors translation_results(Model& model, const NamedTensors& inputs, const ForwardPass& pass);

}  // namespace foldgrad
